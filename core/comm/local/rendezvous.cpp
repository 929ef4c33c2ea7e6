#include "comm/local/rendezvous.h"

#include <fmt/format.h>

#include <chrono>

#include "base/check.h"

namespace reshard::comm {
namespace {

// After so long a wait its place is noted; most waits are over long before, and noting takes a lock.
constexpr int64_t kUnusuallyLong = 50'000'000;

int64_t now_nanoseconds() {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Rendezvous::Rendezvous(std::shared_ptr<Terms> terms, std::vector<int> members)
    : terms_(std::move(terms)), members_(std::move(members)), slots_(std::make_unique<Slot[]>(members_.size())) {}

std::shared_ptr<Rendezvous> Rendezvous::make(std::shared_ptr<Terms> terms, std::vector<int> members) {
  const std::shared_ptr<Rendezvous> made(new Rendezvous(terms, std::move(members)));
  const std::lock_guard lock(terms->mutex);
  std::erase_if(terms->rendezvous, [](const auto& other) { return other.expired(); });
  terms->rendezvous.push_back(made);
  return made;
}

void Rendezvous::clean() {
  for (size_t i = 0; i < members_.size(); ++i) {
    slots_[i].step.set(0);
    slots_[i].collectives = 0;
  }
}

std::shared_ptr<Rendezvous> Rendezvous::group(const std::vector<int>& places, uint64_t nth) {
  const std::lock_guard lock(mutex_);
  auto [entry, created] = pending_.try_emplace({places, nth});
  Pending& pending = entry->second;
  if (created) {
    std::vector<int> members;
    for (const int place : places) members.push_back(members_[static_cast<size_t>(place)]);
    pending = {make(terms_, std::move(members)), places.size()};
  }
  std::shared_ptr<Rendezvous> group = pending.group;
  if (--pending.still_to_come == 0) pending_.erase(entry);
  return group;
}

Participant::Participant(std::shared_ptr<Rendezvous> rendezvous, int rank)
    : rendezvous_(std::move(rendezvous)), rank_(rank), size_(rendezvous_->size()) {}

void Participant::open(const Call& call) {
  const Failure& failure = rendezvous_->terms_->failure;
  // Nothing is published after a failure: others may still be reading the call that it ended.
  if (failure.is_set()) failure.raise(where(call));
  Rendezvous::Slot& slot = mine();
  slot.call = call;
  ++slot.collectives;
  meet();
  slot.reading.store(true, std::memory_order_seq_cst);
  if (failure.is_set()) give_up();
  compare();
}

void Participant::close() {
  mine().reading.store(false, std::memory_order_release);
  meet();
}

std::string Participant::where(const Call& call) const {
  return fmt::format("rank {}, {}", name_of(rank_), text(call));
}

void Participant::meet() {
  const uint32_t step = mine().step.value() + 1;
  mine().step.set(step);
  for (int i = 1; i < size_; ++i) await((rank_ + i) % size_, step);
}

void Participant::await(int peer, uint32_t step) {
  Terms& terms = *rendezvous_->terms_;
  int64_t since = 0;
  std::optional<Waits::Noted> noted;
  device::wait_for(
      rendezvous_->slots_[static_cast<size_t>(peer)].step, terms.patience,
      [&](uint32_t) { return has_come(peer, step); },
      [&] {
        const int64_t now = now_nanoseconds();
        if (since == 0) since = now;
        if (!noted && now - since > kUnusuallyLong) {
          noted.emplace(terms.waits, name_of(rank_), name_of(peer), rendezvous_->slots_[static_cast<size_t>(peer)].step,
                        step, mine().call);
        }
        if (noted) check_circle(peer, step);
        check_alive(peer, step, now - since - static_cast<int64_t>(terms.timeout_seconds * 1e9));
      });
}

// Ranks that are in different collectives of different groups wait for each other, each for the other's coming.
void Participant::check_circle(int peer, uint32_t step) {
  Terms& terms = *rendezvous_->terms_;
  const std::optional<std::string> circle = terms.waits.circle(name_of(rank_));
  if (!circle || has_come(peer, step)) return;
  terms.failure.interrupt({.code = ErrorCode::communication,
                           .what = "the ranks wait for each other without end: " + *circle,
                           .remedy = "every rank must run the same units in the same order"});
  give_up();
}

bool Participant::has_come(int peer, uint32_t step) const {
  return static_cast<int32_t>(rendezvous_->slots_[static_cast<size_t>(peer)].step.value() - step) >= 0;
}

// Called while the peer has not come: ends the wait if it never will, or has not within the time allowed.
void Participant::check_alive(int peer, uint32_t step, int64_t nanoseconds_over) {
  Failure& failure = rendezvous_->terms_->failure;
  if (failure.is_set()) {
    if (has_come(peer, step)) return;  // note "All or none": it is looked at after the failure
    give_up();
  }
  // A peer's counter is final once it has left, so it is read after that.
  if (failure.left(name_of(peer))) {
    if (has_come(peer, step)) return;
    failure.end({.code = ErrorCode::rank_failed,
                 .what = fmt::format("rank {} returned while rank {} waits for it in {}", name_of(peer), name_of(rank_),
                                     text(mine().call)),
                 .remedy = "every rank must run the same steps"});
    give_up();
  }
  if (nanoseconds_over < 0) return;
  failure.end({.code = ErrorCode::communication,
               .what = fmt::format("rank {} did not come to {}, collective {}, within {:g} s{}", name_of(peer),
                                   text(mine().call), mine().collectives, rendezvous_->terms_->timeout_seconds,
                                   rendezvous_->terms_->waits.places_text(name_of(peer))),
               .remedy = fmt::format("see what rank {} is doing, or allow more time if it only computes for long",
                                     name_of(peer))});
  give_up();
}

void Participant::compare() {
  for (int i = 1; i < size_; ++i) {
    if (!same(peer(0), peer(i))) disagree(i);
  }
}

// All members see the same calls and come to the same verdict. They leave together, because the names in the calls live
// only as long as their ranks stay.
void Participant::disagree(int other) {
  const auto side = [this](int rank) {
    return fmt::format("rank {} is in {}", name_of(rank), full_text(peer(rank)));
  };
  const std::string what = fmt::format("ranks {} and {} disagree in collective {}: {}, {}", name_of(0), name_of(other),
                                       mine().collectives, side(0), side(other));
  const char* remedy = "every rank must run the same units in the same order";
  try {
    close();
  } catch (const Error&) {  // the disagreement is the error to report
  }
  rendezvous_->terms_->failure.interrupt({.code = ErrorCode::communication, .what = what, .remedy = remedy});
  throw Error(ErrorCode::communication, what, fmt::format("rank {}", name_of(rank_)), remedy);
}

// See the note "Leaving early". REQUIRES: the failure is set.
void Participant::give_up() {
  mine().reading.store(false, std::memory_order_seq_cst);
  for (int i = 0; i < size_; ++i) {
    while (rendezvous_->slots_[static_cast<size_t>(i)].reading.load(std::memory_order_seq_cst)) device::yield_thread();
  }
  rendezvous_->terms_->failure.raise(where(mine().call));
}

void Participant::fail(std::string_view message) noexcept {
  rendezvous_->terms_->failure.end(cause(message));
}

void Participant::interrupt(std::string_view message) noexcept {
  rendezvous_->terms_->failure.interrupt(cause(message));
}

Cause Participant::cause(std::string_view message) const {
  return {.code = ErrorCode::rank_failed,
          .what = fmt::format("rank {} failed: {}", name_of(rank_), message),
          .remedy = fmt::format("mend what ended rank {}", name_of(rank_))};
}

void Participant::check() const {
  if (interrupted()) rendezvous_->terms_->failure.raise(fmt::format("rank {}", name_of(rank_)));
}

void Participant::recover() {
  Terms& terms = *rendezvous_->terms_;
  terms.recovery.meet(name_of(rank_), terms.failure,
                      {.patience = terms.patience, .timeout_seconds = terms.timeout_seconds}, [&terms] {
                        const std::lock_guard lock(terms.mutex);
                        for (const auto& each : terms.rendezvous) {
                          if (const std::shared_ptr<Rendezvous> one = each.lock()) one->clean();
                        }
                        terms.failure.clear();
                      });
}

void Participant::leave() noexcept {
  rendezvous_->terms_->failure.leave(name_of(rank_));
}

}  // namespace reshard::comm
