#pragma once

// A number in memory that processes share: one sets it, others wait for it, spinning first and then asleep in the
// kernel, so that ranks which compute keep their cores.
//
// Threads and processes: set() by one at a time, all else by any. A process that is killed asleep costs the others a
// system call per set(), nothing else.

#include <atomic>
#include <cstdint>

namespace reshard::comm::mpi {

class alignas(64) SharedCounter {
 public:
  uint32_t value() const { return value_.load(std::memory_order_acquire); }

  // What was written before is seen by whoever reads the new value.
  void set(uint32_t value) {
    value_.store(value, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) != 0) wake();
  }

  // Sleeps while the value is `seen`, for at most `nanoseconds`; may return early.
  void sleep(uint32_t seen, int64_t nanoseconds);

 private:
  void wake();

  std::atomic<uint32_t> value_{0};
  std::atomic<uint32_t> sleepers_{0};
};
static_assert(std::atomic<uint32_t>::is_always_lock_free && std::atomic<uint64_t>::is_always_lock_free,
              "an atomic with a lock of its own does not work between processes");

void sleep_nanoseconds(int64_t nanoseconds);
int64_t now_nanoseconds();

}  // namespace reshard::comm::mpi
