#pragma once

// The failures of one host's ranks in shared memory: as local/failure.h, without a lock, because a process that holds
// one may be killed.
//
// Threads and processes: any, but clear() as it says. Looking whether there is a failure costs one load.

#include <string>

#include "comm/local/failure.h"
#include "comm/mpi/shared.h"

namespace reshard::comm::mpi {

class Board {
 public:
  explicit Board(BoardMemory* memory) : memory_(memory) {}

  // Each keeps the first of its kind, and says whether this is it. An interruption after a failure is ignored.
  bool interrupt(const FailureText& text) noexcept;
  bool end(const FailureText& text) noexcept;

  bool is_set() const { return (memory_->state.load(std::memory_order_acquire) & (kInterrupted | kFinal)) != 0; }
  bool is_final() const { return (memory_->state.load(std::memory_order_acquire) & kFinal) != 0; }

  // REQUIRES: is_set(), is_final().
  [[noreturn]] void raise(std::string where) const;
  [[noreturn]] void raise_final(std::string where) const;

  // Forgets the interruption. REQUIRES: no rank of any host is in a collective.
  void clear() { memory_->state.fetch_and(~(kInterrupted | kInterrupting)); }

 private:
  static constexpr uint32_t kInterrupted = 1, kFinal = 2, kInterrupting = 4, kEnding = 8;

  bool write(FailureText& to, const FailureText& text, uint32_t claim, uint32_t set) noexcept;

  BoardMemory* memory_;
};

// A cause as it goes between processes; long texts are cut.
FailureText as_text(const Cause& cause);

}  // namespace reshard::comm::mpi
