#include "device/host/wait.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>
#include <thread>

namespace reshard::device {
namespace {

long futex(std::atomic<uint32_t>& word, int operation, uint32_t value, const timespec* timeout) {
  static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));
  return syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), operation, value, timeout, nullptr, 0);
}

}  // namespace

void Counter::sleep(uint32_t seen, int64_t nanoseconds) {
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  if (value_.load(std::memory_order_seq_cst) == seen) {
    timespec timeout{};
    timeout.tv_sec = nanoseconds / 1'000'000'000;
    timeout.tv_nsec = nanoseconds % 1'000'000'000;
    futex(value_, FUTEX_WAIT_PRIVATE, seen, &timeout);
  }
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

void Counter::wake() {
  futex(value_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr);
}

Patience Patience::of(int threads) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  // Spinning for about 5 µs is longer than any small collective. Yielding after that costs little where each thread has
  // a core, and hands the core to the very thread that is waited for where the system put both on one.
  if (threads <= cores) return {.spins = 300, .yields = 200};
  return {.spins = 20, .yields = 20};
}

void spin_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

void yield_thread() {
  sched_yield();
}

}  // namespace reshard::device
