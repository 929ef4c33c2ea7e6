#include "comm/mpi/participant.h"

#include <signal.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <mutex>

#include <fmt/format.h>

namespace reshard::comm::mpi {
namespace {

using std::chrono::steady_clock;

// Between two looks of a rank that has waited for long: processes do not wake each other.
constexpr long kShortestNap = 20'000, kLongestNap = 1'000'000;  // nanoseconds

void nap(long nanoseconds) {
  const timespec time{0, nanoseconds};
  nanosleep(&time, nullptr);
}

// Returns when done(); poll() is called now and then, and ends the wait by throwing.
template <class Done, class Poll>
void wait_until(const device::Patience& patience, const Done& done, const Poll& poll) {
  for (int i = 0; i < patience.spins; ++i) {
    if (done()) return;
    device::spin_pause();
  }
  for (int i = 0; i < patience.yields; ++i) {
    if (done()) return;
    device::yield_thread();
  }
  for (long length = kShortestNap; !done(); length = std::min(2 * length, kLongestNap)) {
    poll();
    nap(length);
  }
}

class Deadline {
 public:
  explicit Deadline(double seconds) : end_(steady_clock::now() + std::chrono::duration<double>(seconds)) {}
  bool is_over() const { return steady_clock::now() >= end_; }

 private:
  std::chrono::time_point<steady_clock, std::chrono::duration<double>> end_;
};

}  // namespace

bool is_alive(const Seat& seat) {
  const int32_t process = seat.process.load(std::memory_order_acquire);
  return process == 0 || kill(process, 0) == 0 || errno != ESRCH;
}

Participant::Participant(std::shared_ptr<const Terms> terms, uint64_t key, std::vector<int> members)
    : terms_(std::move(terms)), members_(std::move(members)) {
  place_ = static_cast<int>(std::find(members_.begin(), members_.end(), terms_->rank) - members_.begin());
  self_ = board().join_group(key, size(), place_, terms_->rank);
  if (self_.lane < 0)
    throw Error(ErrorCode::communication,
                fmt::format("rank {} is in more than {} groups of ranks", terms_->rank, kLanes), "",
                "use fewer different values of after_forward = k");
}

Participant::~Participant() {
  board().leave_group(self_.group, members_);
}

std::string Participant::name_of(int member) const {
  const int rank = members_[static_cast<size_t>(member)];
  const std::string& host = terms_->hosts[static_cast<size_t>(rank)];
  return host == terms_->hosts.front() && host == terms_->hosts.back() ? fmt::format("rank {}", rank)
                                                                       : fmt::format("rank {} on {}", rank, host);
}

std::string Participant::text_of_own() const {
  return text(own().call.get());
}

std::string Participant::where() const {
  return fmt::format("{}, {}", name_of(place_), text_of_own());
}

void Participant::open(const Call& call) {
  Slot& mine = own();
  if (board().failed()) {
    board().raise(fmt::format("{}, {}", name_of(place_), text(call)));
  }
  mine.call.set(call);
  ++mine.collectives;
  turn();
  compare();
}

void Participant::turn() {
  const uint32_t step = own().step.load(std::memory_order_relaxed) + 1;
  own().step.store(step, std::memory_order_release);
  for (int i = 1; i < size(); ++i) await((place_ + i) % size(), step);
}

bool Participant::has_come(int member, uint32_t step) const {
  if (lane_of(member) < 0) return false;
  return static_cast<int32_t>(slot(member).step.load(std::memory_order_acquire) - step) >= 0;
}

void Participant::await(int member, uint32_t step) {
  if (has_come(member, step)) return;
  const Deadline deadline(terms_->timeout_seconds);
  wait_until(
      terms_->patience, [&] { return has_come(member, step); }, [&] { check_alive(member, step, deadline.is_over()); });
}

// Called while the member has not come: ends the wait if it never will, or has not within the time allowed.
void Participant::check_alive(int member, uint32_t step, bool late) {
  if (board().failed()) {
    if (has_come(member, step)) return;  // it is looked at after the failure
    board().raise(where());
  }
  const Seat& seat = board().seat(members_[static_cast<size_t>(member)]);
  const bool left = seat.left.load(std::memory_order_acquire) != 0, dead = !left && !is_alive(seat);
  if (!left && !dead && !late) return;
  if ((left || dead) && has_come(member, step)) return;
  const std::string who = name_of(member), what = text_of_own();
  const uint64_t number = own().collectives;
  if (left)
    board().end(cause(ErrorCode::rank_failed,
                      fmt::format("{} returned while {} waits for it in {}", who, name_of(place_), what),
                      "every rank must run the same steps"));
  else if (dead)
    board().end(cause(ErrorCode::rank_failed,
                      fmt::format("{} is gone (process {}) while {} waits for it in {}, collective {}", who,
                                  seat.process.load(std::memory_order_relaxed), name_of(place_), what, number),
                      "see what ended that process"));
  else
    board().end(cause(
        ErrorCode::communication,
        fmt::format("{} did not come to {}, collective {}, within {:g} s", who, what, number, terms_->timeout_seconds),
        fmt::format("see what {} is doing, or allow more time if it only computes for long", who)));
  board().raise(where());
}

// All members see the same calls and come to the same verdict.
void Participant::compare() const {
  for (int other = 1; other < size(); ++other) {
    const Call first = slot(0).call.get(), call = slot(other).call.get();
    if (same(first, call)) continue;
    const std::string what =
        fmt::format("ranks {} and {} disagree in collective {}: rank {} is in {}, rank {} is in {}", members_[0],
                    members_[static_cast<size_t>(other)], own().collectives, members_[0], full_text(first),
                    members_[static_cast<size_t>(other)], full_text(call));
    const char* remedy = "every rank must run the same units in the same order";
    board().interrupt(cause(ErrorCode::communication, what, remedy));
    throw Error(ErrorCode::communication, what, name_of(place_), remedy);
  }
}

SharedCause Participant::failure(std::string_view message) const {
  return cause(ErrorCode::rank_failed, fmt::format("{} failed: {}", name_of(place_), message),
               fmt::format("mend what ended {}", name_of(place_)));
}

// Waits for every rank of the board; the last one to come lets all begin anew.
void Participant::recover() {
  const Board& all = board();
  Head& head = all.head();
  const std::string place = fmt::format("{}, recovery", name_of(place_));
  uint32_t round = 0;
  {
    const std::lock_guard guard(head.lock);
    if (all.final()) all.raise(place, true);
    round = head.round.load(std::memory_order_relaxed);
    all.seat(terms_->rank).in_recovery = 1;
    int missing = 0;
    for (int r = 0; r < all.ranks(); ++r) missing += all.seat(r).in_recovery == 0 ? 1 : 0;
    if (missing == 0) {
      for (int r = 0; r < all.ranks(); ++r) all.seat(r).in_recovery = 0;
      all.begin_anew();
      head.state.fetch_and(~Board::kInterrupted, std::memory_order_seq_cst);
      head.round.store(round + 1, std::memory_order_release);
      return;
    }
  }
  const Deadline deadline(terms_->timeout_seconds);
  const auto over = [&] { return head.round.load(std::memory_order_acquire) != round; };
  wait_until(terms_->patience, over, [&] { check_recovery(place, round, deadline.is_over()); });
}

// Called while somebody is missing: ends the wait if not all will come. Under the lock, so that a rank that gives up
// and one that comes last agree on who was first.
void Participant::check_recovery(const std::string& place, uint32_t round, bool late) {
  const Board& all = board();
  const std::lock_guard guard(all.head().lock);
  if (all.head().round.load(std::memory_order_relaxed) != round) return;
  for (int r = 0; r < all.ranks() && !all.final(); ++r) {
    const Seat& seat = all.seat(r);
    if (seat.in_recovery != 0) continue;
    if (seat.left.load(std::memory_order_acquire) != 0)
      all.end_locked(cause(ErrorCode::rank_failed,
                           fmt::format("rank {} returned while rank {} waits for it in the recovery", r, terms_->rank),
                           "every rank must run the same steps"));
    else if (!is_alive(seat))
      all.end_locked(cause(ErrorCode::rank_failed,
                           fmt::format("rank {} is gone while rank {} waits for it in the recovery", r, terms_->rank),
                           "see what ended that process"));
    else if (late)
      all.end_locked(
          cause(ErrorCode::communication,
                fmt::format("rank {} did not come to the recovery within {:g} s", r, terms_->timeout_seconds),
                fmt::format("see what rank {} is doing, or allow more time if it only computes for long", r)));
  }
  if (all.final()) all.raise(place, true);
}

}  // namespace reshard::comm::mpi
