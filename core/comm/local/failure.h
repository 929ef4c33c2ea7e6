#pragma once

// What ends all collectives of a set of ranks: the first failure of any of them, and which of them have returned.
//
// Threads: any. set() publishes once; reading costs one load.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "reshard/error.h"

namespace reshard::comm {

class Failure {
 public:
  explicit Failure(int ranks);

  // Keeps the first failure, ignores later ones.
  void set(ErrorCode code, std::string what, std::string remedy) noexcept;

  // Sequentially consistent, as Rendezvous needs it ("Leaving early" there).
  bool is_set() const { return state_.load(std::memory_order_seq_cst) == kSet; }

  // REQUIRES: is_set(). `where` is the caller's own place: "rank 0, all-gather of unit h.3".
  [[noreturn]] void raise(std::string where) const;

  void leave(int rank) { left_[static_cast<size_t>(rank)].store(true, std::memory_order_release); }
  bool left(int rank) const { return left_[static_cast<size_t>(rank)].load(std::memory_order_acquire); }

 private:
  enum State : int { kNone, kBeingWritten, kSet };

  std::atomic<int> state_{kNone};
  ErrorCode code_ = ErrorCode::rank_failed;
  std::string what_, remedy_;
  std::unique_ptr<std::atomic<bool>[]> left_;
};

}  // namespace reshard::comm
