#include "comm/mpi/member.h"

#include <fmt/format.h>

#include <utility>

#include "reshard/error.h"

namespace reshard::comm::mpi {
namespace {

int8_t as_number(std::optional<Dtype> dtype) {
  return dtype ? static_cast<int8_t>(*dtype) : int8_t{-1};
}

std::optional<Dtype> as_dtype(int8_t number) {
  if (number < 0) return std::nullopt;
  return static_cast<Dtype>(number);
}

constexpr int64_t kLetterPause = 50'000;

}  // namespace

Call as_call(const Record& record) {
  Call call;
  call.collective = record.collective;
  call.root = record.root;
  call.tag = {.unit = record.unit, .unit_name = record.unit_name, .dtype = as_dtype(record.tag_dtype)};
  call.bytes = record.bytes;
  call.input_dtype = as_dtype(record.input_dtype);
  call.output_dtype = as_dtype(record.output_dtype);
  return call;
}

Member::Member(std::shared_ptr<Seat> seat, uint64_t key, std::vector<int> ranks, int place)
    : seat_(std::move(seat)),
      key_(key),
      ranks_(std::move(ranks)),
      place_(place),
      slot_(seat_->make_slot(key)),
      peers_(ranks_.size()) {
  for (size_t i = 0; i < ranks_.size(); ++i) {
    if (seat_->is_near(ranks_[i])) continue;
    peers_[i].mirror = &seat_->mail().mirror(key_, ranks_[i]);
    far_ = true;
  }
  peers_[static_cast<size_t>(place_)].slot = &slot_;
}

Member::~Member() {
  if (block_ != 0) seat_->give_block(block_);
  if (far_) seat_->mail().forget(key_);
}

void Member::open(const Call& call) {
  Record& record = slot_.records[(slot_.step.value() + 1) & 1U];
  // A rank that failed has published nothing of this collective; the place in the error text is its own anyway.
  if (seat_->board().is_set()) seat_->board().raise(fmt::format("rank {}, {}", seat_->rank(), text(call)));
  record = Record();
  record.bytes = call.bytes;
  record.number = ++slot_.number;
  record.root = call.root;
  record.unit = call.tag.unit;
  record.collective = call.collective;
  record.tag_dtype = as_number(call.tag.dtype);
  record.input_dtype = as_number(call.input_dtype);
  record.output_dtype = as_number(call.output_dtype);
  copy_text(record.unit_name, call.tag.unit_name);
  first_ = true;
  if (slot_.step.value() == 0)  // the first since the start or a recovery
    for (Peer& peer : peers_) peer.asked = 0;
}

std::byte* Member::buffer() {
  if (block_ == 0) {
    block_ = seat_->take_block();
    slot_.staging.store(block_, std::memory_order_release);
  }
  return seat_->memory(seat_->rank()) + block_ + ((slot_.step.value() + 1) & 1U) * kBufferBytes;
}

void Member::post(Parts parts, size_t bytes, size_t stride) {
  const uint32_t step = slot_.step.value() + 1;
  if (!first_) slot_.records[step & 1U] = slot_.records[(step + 1) & 1U];
  parts_ = parts;
  stride_ = stride;
  far_ ? post_by_letters(parts, bytes, stride, step) : slot_.step.set(step);
  for (int i = 1; i < size(); ++i) await((place_ + i) % size(), step);
  if (std::exchange(first_, false)) compare();
}

void Member::post_by_letters(Parts parts, size_t bytes, size_t stride, uint32_t step) {
  const std::byte* shown = block_ == 0 ? nullptr : seat_->memory(seat_->rank()) + block_ + (step & 1U) * kBufferBytes;
  Letter letter{.kind = Letter::Kind::post, .key = key_, .number = step};
  letter.record = slot_.records[step & 1U];
  letters_.clear();
  for (size_t i = 0; i < ranks_.size(); ++i) {
    if (peers_[i].mirror == nullptr) continue;
    letters_.push_back({ranks_[i], bytes == 0 || parts == Parts::same_for_all ? shown : shown + i * stride});
  }
  seat_->mail().post(slot_.step, letter, letters_, bytes);
}

const std::byte* Member::from(int place) const {
  const Peer& peer = peers_[static_cast<size_t>(place)];
  const uint32_t parity = slot_.step.value() & 1U;
  if (peer.mirror != nullptr) return peer.mirror->payloads[parity].data();
  const std::byte* shown = seat_->memory(ranks_[static_cast<size_t>(place)]) +
                           peer.slot->staging.load(std::memory_order_acquire) + parity * kBufferBytes;
  return parts_ == Parts::same_for_all ? shown : shown + static_cast<size_t>(place_) * stride_;
}

// Far ranks have come, so they receive. Without this a long letter would stand still while this rank computes.
void Member::close() {
  if (!far_) return;
  const int64_t until = now_nanoseconds() + static_cast<int64_t>(seat_->timeout_seconds() * 1e9);
  while (!seat_->mail().is_sent() && !seat_->board().is_set() && now_nanoseconds() < until) {
    seat_->mail().look();
    device::yield_thread();
  }
}

Slot* Member::find(int place) {
  Peer& peer = peers_[static_cast<size_t>(place)];
  if (peer.slot != nullptr) return peer.slot;
  Area& area = seat_->area(ranks_[static_cast<size_t>(place)]);
  for (uint32_t i = area.slots_used.load(std::memory_order_acquire); i > 0 && peer.slot == nullptr; --i)
    if (area.slots[i - 1].key.load(std::memory_order_acquire) == key_) peer.slot = &area.slots[i - 1];
  return peer.slot;
}

bool Member::has_come(int place, uint32_t step) {
  const Peer& peer = peers_[static_cast<size_t>(place)];
  uint32_t there = 0;
  if (peer.mirror != nullptr) {
    there = peer.mirror->step.load(std::memory_order_acquire);
  } else if (const Slot* slot = find(place)) {
    there = slot->step.value();
  }
  return static_cast<int32_t>(there - step) >= 0;
}

void Member::await(int place, uint32_t step) {
  const device::Patience& patience = seat_->patience();
  for (int turn = 0; turn < patience.spins; ++turn) {
    if (has_come(place, step)) return;
    device::spin_pause();
  }
  const int64_t since = now_nanoseconds(), allowed = static_cast<int64_t>(seat_->timeout_seconds() * 1e9);
  for (int turn = 0;; ++turn) {
    seat_->mail().look();
    if (has_come(place, step)) return;
    check_alive(place, step, now_nanoseconds() - since - allowed);
    if (turn < patience.yields) {
      device::yield_thread();
    } else {
      pause(place, step);
    }
  }
}

// Asleep, but not longer than until letters have to be looked for.
void Member::pause(int place, uint32_t step) {
  const int64_t longest = seat_->mail().needed() ? kLetterPause : device::kSleepNanoseconds;
  Slot* slot = peers_[static_cast<size_t>(place)].mirror != nullptr ? nullptr : find(place);
  if (slot == nullptr) return sleep_nanoseconds(kLetterPause);
  const uint32_t seen = slot->step.value();
  if (static_cast<int32_t>(seen - step) < 0) slot->step.sleep(seen, longest);
}

// Called while the peer has not come: ends the wait if it never will, or has not within the time allowed.
void Member::check_alive(int place, uint32_t step, int64_t nanoseconds_over) {
  const int rank = ranks_[static_cast<size_t>(place)];
  if (seat_->board().is_set()) {
    const bool may_come = nanoseconds_over < 0 && is_in_flight(place, step);
    if (may_come || has_come(place, step)) return;  // note "All or none": it is looked at after the failure
    raise();
  }
  const Record& mine = slot_.records[step & 1U];
  const auto ended = [&](bool left, const char* how, const char* remedy) {
    if (!left || has_come(place, step)) return;  // its counter is final once it has ended, so it is read after that
    seat_->end({.code = ErrorCode::rank_failed,
                .what = fmt::format("{} {} while {} waits for it in {}", name_of(place), how, name_of(place_),
                                    text(as_call(mine))),
                .remedy = remedy});
    raise();
  };
  ended(seat_->has_left(rank), "returned", "every rank must run the same steps");
  ended(seat_->is_dead(rank), "ended without a word",
        "see what its process printed last, and whether the system ended it (dmesg)");
  if (nanoseconds_over < 0) return;
  seat_->end(
      {.code = ErrorCode::communication,
       .what = fmt::format("{} did not come to {}, collective {}, within {:g} s", name_of(place), text(as_call(mine)),
                           mine.number, seat_->timeout_seconds()),
       .remedy = fmt::format("see what rank {} is doing, or allow more time if it only computes for long", rank)});
  raise();
}

// See the note "In flight" in mail.h.
bool Member::is_in_flight(int place, uint32_t step) {
  Peer& peer = peers_[static_cast<size_t>(place)];
  if (peer.mirror == nullptr || seat_->board().is_final()) return false;
  if (std::exchange(peer.asked, step) != step)
    seat_->mail().send(ranks_[static_cast<size_t>(place)], {.kind = Letter::Kind::ask, .key = key_, .number = step},
                       nullptr, 0);
  return peer.mirror->answered.load(std::memory_order_acquire) != step;
}

const Record& Member::record_of(int place) const {
  const Peer& peer = peers_[static_cast<size_t>(place)];
  const uint32_t parity = slot_.step.value() & 1U;
  return peer.mirror != nullptr ? peer.mirror->records[parity] : peer.slot->records[parity];
}

void Member::compare() {
  const Call first = as_call(record_of(0));
  for (int i = 1; i < size(); ++i)
    if (!same(first, as_call(record_of(i)))) disagree(i);
}

// All members see the same calls and come to the same verdict. They leave together, so that all of them have looked
// before anybody interrupts.
void Member::disagree(int other) {
  const auto side = [this](int place) {
    return fmt::format("{} is in {}", name_of(place), full_text(as_call(record_of(place))));
  };
  const auto number = [this](int place) { return ranks_[static_cast<size_t>(place)]; };
  const std::string what = fmt::format("ranks {} and {} disagree in collective {}: {}, {}", number(0), number(other),
                                       slot_.number, side(0), side(other));
  const char* remedy = "every rank must run the same units in the same order";
  try {
    post(Parts::same_for_all, 0, 0);
  } catch (const Error&) {  // the disagreement is the error to report
  }
  seat_->interrupt({.code = ErrorCode::communication, .what = what, .remedy = remedy});
  throw Error(ErrorCode::communication, what, fmt::format("rank {}", seat_->rank()), remedy);
}

std::string Member::where() const {
  return fmt::format("rank {}, {}", seat_->rank(), text(as_call(slot_.records[slot_.step.value() & 1U])));
}

}  // namespace reshard::comm::mpi
