#include "comm/local/recovery.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace reshard::comm {
namespace {

std::string place(int rank) {
  return fmt::format("rank {}, recovery", rank);
}

}  // namespace

Recovery::Recovery(int ranks) : here_(static_cast<size_t>(ranks)), missing_(here_.size()) {}

void Recovery::meet(int rank, Failure& failure, const Limits& limits, const std::function<void()>& clean) {
  using std::chrono::steady_clock;
  uint32_t round = 0;
  {
    const std::lock_guard lock(mutex_);
    if (failure.is_final()) failure.raise_final(place(rank));
    round = round_.value();
    here_[static_cast<size_t>(rank)] = 1;
    if (--missing_ == 0) {
      clean();
      std::fill(here_.begin(), here_.end(), char{0});
      missing_ = here_.size();
      round_.set(round + 1);
      return;
    }
  }
  const auto allowed = std::chrono::duration<double>(limits.timeout_seconds);
  const auto start = steady_clock::now();
  device::wait_for(
      round_, limits.patience, [&](uint32_t now) { return now != round; },
      [&] { check(rank, round, failure, steady_clock::now() - start >= allowed, limits.timeout_seconds); });
}

// Called while somebody is missing: ends the wait if not all will come. Under the lock, so that a rank that gives up
// and one that comes last agree on who was first.
void Recovery::check(int rank, uint32_t round, Failure& failure, bool late, double timeout_seconds) {
  const std::lock_guard lock(mutex_);
  if (round_.value() != round) return;
  for (int other = 0; other < static_cast<int>(here_.size()) && !failure.is_final(); ++other) {
    if (here_[static_cast<size_t>(other)] != 0) continue;
    if (failure.left(other)) {
      failure.end({.code = ErrorCode::rank_failed,
                   .what = fmt::format("rank {} returned while rank {} waits for it in the recovery", other, rank),
                   .remedy = "every rank must run the same steps"});
    } else if (late) {
      failure.end(
          {.code = ErrorCode::communication,
           .what = fmt::format("rank {} did not come to the recovery within {:g} s", other, timeout_seconds),
           .remedy = fmt::format("see what rank {} is doing, or allow more time if it only computes for long", other)});
    }
  }
  if (failure.is_final()) failure.raise_final(place(rank));
}

}  // namespace reshard::comm
