#pragma once

// Waiting for another thread: spin briefly, then yield, then sleep in the kernel (futex).
//
// A Counter is a number that one thread sets and others wait on; setting it costs a store and a load while nobody
// sleeps. Threads: set() by one thread at a time, all else by any.

#include <atomic>
#include <cstdint>

namespace reshard::device {

class alignas(64) Counter {
 public:
  uint32_t value() const { return value_.load(std::memory_order_acquire); }

  // What was written before set() is seen by whoever reads the new value. The order of the store and the load below is
  // what keeps a sleeper from being missed, hence sequentially consistent.
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

// How long a thread tries before it sleeps.
struct Patience {
  int spins = 0, yields = 0;

  // For a process in which `threads` threads are busy: little patience where they share cores.
  static Patience of(int threads);
};

void spin_pause();
void yield_thread();

inline constexpr int64_t kSleepNanoseconds = 20'000'000;  // between two looks at what else may have happened

// Returns when done(counter.value()). poll() is called now and then while waiting, at least every 20 ms; it ends the
// wait by throwing.
template <class Done, class Poll>
void wait_for(Counter& counter, const Patience& patience, const Done& done, const Poll& poll) {
  for (int i = 0; i < patience.spins; ++i) {
    if (done(counter.value())) return;
    spin_pause();
  }
  for (int i = 0; i < patience.yields; ++i) {
    if (done(counter.value())) return;
    poll();
    yield_thread();
  }
  for (;;) {
    const uint32_t seen = counter.value();
    if (done(seen)) return;
    poll();
    counter.sleep(seen, kSleepNanoseconds);
  }
}

}  // namespace reshard::device
