#include "comm/mpi/board.h"

#include <sched.h>

#include <chrono>
#include <mutex>

namespace reshard::comm::mpi {
namespace {

constexpr size_t rounded(size_t bytes) {
  return (bytes + 4095) / 4096 * 4096;
}

// Where each part begins, for so many ranks.
struct Parts {
  explicit Parts(int count) {
    const auto ranks = static_cast<size_t>(count), lanes = static_cast<size_t>(kLanes);
    seats = rounded(sizeof(Head));
    groups = seats + rounded(sizeof(Seat) * ranks);
    members = groups + rounded(sizeof(Group) * lanes * ranks);
    slots = members + rounded(lanes * ranks * ranks);
    mailboxes = slots + rounded(sizeof(Slot) * lanes * ranks);
    end = mailboxes + kMailboxBytes * lanes * ranks;
  }
  size_t seats, groups, members, slots, mailboxes, end;
};

}  // namespace

// No holder keeps it for longer than it takes to write two texts: who waits a second waits for a dead process.
void SharedLock::lock() {
  const auto start = std::chrono::steady_clock::now();
  uint32_t free = 0;
  while (!held_.compare_exchange_weak(free, 1, std::memory_order_acquire)) {
    free = 0;
    sched_yield();
    if (std::chrono::steady_clock::now() - start > std::chrono::seconds(1)) {
      held_.store(1, std::memory_order_relaxed);
      return;
    }
  }
}

void SharedCall::set(const Call& from) {
  collective = from.collective;
  root = from.root, unit = from.tag.unit;
  unit_name.set(from.tag.unit_name);
  bytes = from.bytes;
  const auto number = [](std::optional<Dtype> dtype) {
    return static_cast<int8_t>(dtype ? static_cast<int>(*dtype) : -1);
  };
  input_dtype = number(from.input_dtype), output_dtype = number(from.output_dtype);
}

Call SharedCall::get() const {
  Call call;
  call.collective = collective;
  call.root = root;
  call.tag.unit = unit;
  call.tag.unit_name = unit_name.bytes;
  call.bytes = bytes;
  const auto dtype = [](int8_t number) { return number < 0 ? std::optional<Dtype>() : static_cast<Dtype>(number); };
  call.input_dtype = dtype(input_dtype), call.output_dtype = dtype(output_dtype);
  return call;
}

size_t Board::begin_of_mailboxes(int ranks) {
  return Parts(ranks).mailboxes;
}

size_t Board::bytes(int ranks) {
  return Parts(ranks).end;
}

Seat& Board::seat(int rank) const {
  return reinterpret_cast<Seat*>(memory_ + Parts(ranks_).seats)[rank];
}

Group& Board::group(int place) const {
  return reinterpret_cast<Group*>(memory_ + Parts(ranks_).groups)[place];
}

std::atomic<uint8_t>* Board::lanes(int group) const {
  return reinterpret_cast<std::atomic<uint8_t>*>(memory_ + Parts(ranks_).members) + group * ranks_;
}

Slot& Board::slot(int rank, int lane) const {
  return reinterpret_cast<Slot*>(memory_ + Parts(ranks_).slots)[rank * kLanes + lane];
}

std::byte* Board::mailbox(int rank, int lane) const {
  return memory_ + Parts(ranks_).mailboxes + kMailboxBytes * static_cast<size_t>(rank * kLanes + lane);
}

SharedCause cause(ErrorCode code, std::string_view what, std::string_view remedy) {
  SharedCause made;
  made.code = static_cast<int32_t>(code);
  made.what.set(what);
  made.remedy.set(remedy);
  return made;
}

void Board::interrupt(const SharedCause& cause) const noexcept {
  const std::lock_guard guard(head().lock);
  if (failed()) return;
  head().interruption = cause;
  head().state.fetch_or(kInterrupted, std::memory_order_seq_cst);
}

void Board::end(const SharedCause& cause) const noexcept {
  const std::lock_guard guard(head().lock);
  end_locked(cause);
}

void Board::end_locked(const SharedCause& cause) const noexcept {
  if (final()) return;
  head().final = cause;
  head().state.fetch_or(kFinal, std::memory_order_seq_cst);
}

void Board::raise(const std::string& where, bool last) const {
  const bool interrupted = (head().state.load(std::memory_order_seq_cst) & kInterrupted) != 0;
  const SharedCause& cause = interrupted && !last ? head().interruption : head().final;
  throw Error(static_cast<ErrorCode>(cause.code), cause.what.get(), where, cause.remedy.get());
}

Membership Board::join_group(uint64_t key, int members, int member, int rank) const {
  const std::lock_guard guard(head().lock);
  Membership mine;
  for (int g = 0; g < most_groups() && (mine.group < 0 || group(mine.group).key == 0); ++g)
    if ((group(g).key == key && group(g).still_to_come > 0) || (group(g).key == 0 && mine.group < 0)) mine.group = g;
  for (int l = kLanes - 1; l >= 0; --l)
    if ((seat(rank).lanes & (1U << l)) == 0) mine.lane = l;
  if (mine.group < 0 || mine.lane < 0) return {};
  Group& joined = group(mine.group);
  if (joined.key == 0) {
    joined = {key, static_cast<uint32_t>(members), 0, static_cast<uint32_t>(members)};
    for (int m = 0; m < members; ++m) lanes(mine.group)[m].store(0, std::memory_order_relaxed);
  }
  --joined.still_to_come, ++joined.present;
  seat(rank).lanes |= 1U << mine.lane;
  slot(rank, mine.lane).step.store(0, std::memory_order_relaxed);
  slot(rank, mine.lane).collectives = 0;
  lanes(mine.group)[member].store(static_cast<uint8_t>(mine.lane + 1), std::memory_order_release);
  return mine;
}

void Board::leave_group(int place, const std::vector<int>& members) const noexcept {
  const std::lock_guard guard(head().lock);
  Group& left = group(place);
  if (--left.present > 0 || left.still_to_come > 0) return;
  left.key = 0;
  for (size_t m = 0; m < members.size(); ++m) seat(members[m]).lanes &= ~(1U << lane(place, static_cast<int>(m)));
}

void Board::begin_anew() const {
  for (int r = 0; r < ranks_; ++r)
    for (int l = 0; l < kLanes; ++l) slot(r, l).step.store(0, std::memory_order_relaxed), slot(r, l).collectives = 0;
}

}  // namespace reshard::comm::mpi
