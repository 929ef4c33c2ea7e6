#pragma once

// What ends the collectives of a set of ranks: the first failure of any of them, and which of them have returned. A
// failure is an interruption, which the ranks can clear together (recovery.h), or final. A final one may follow an
// interruption: what collectives report stays the interruption, because it came first; what a recovery reports is the
// final one.
//
// Threads: any, but clear() as it says. Looking whether there is a failure costs one load.

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "reshard/error.h"

namespace reshard::comm {

struct Cause {
  ErrorCode code = ErrorCode::rank_failed;
  std::string what, remedy;
};

class Failure {
 public:
  explicit Failure(int ranks);

  // Each keeps the first of its kind. An interruption after a final failure is ignored. is_set() holds from here on.
  void interrupt(Cause cause) noexcept;
  void end(Cause cause) noexcept;

  // Sequentially consistent, as Rendezvous needs it ("Leaving early" there).
  bool is_set() const { return state_.load(std::memory_order_seq_cst) != 0; }
  bool is_final() const { return (state_.load(std::memory_order_seq_cst) & kFinal) != 0; }

  // REQUIRES: is_set(), is_final(). `where` is the caller's own place: "rank 0, all-gather of unit h.3".
  [[noreturn]] void raise(std::string where) const;
  [[noreturn]] void raise_final(std::string where) const;

  // Forgets the interruption. REQUIRES: no rank is in a collective, and nobody is in interrupt() or raise().
  void clear() { state_.fetch_and(~kInterrupted, std::memory_order_seq_cst); }

  void leave(int rank) { left_[static_cast<size_t>(rank)].store(true, std::memory_order_release); }
  bool left(int rank) const { return left_[static_cast<size_t>(rank)].load(std::memory_order_acquire); }

 private:
  static constexpr unsigned kInterrupted = 1, kFinal = 2;

  std::atomic<unsigned> state_{0};  // which of the two causes may be read
  std::mutex mutex_;                // of those who write them
  Cause interruption_, final_;
  std::unique_ptr<std::atomic<bool>[]> left_;
};

}  // namespace reshard::comm
