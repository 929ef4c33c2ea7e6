#include "comm/mpi/counter.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <climits>

namespace reshard::comm::mpi {
namespace {

timespec as_timespec(int64_t nanoseconds) {
  timespec time{};
  time.tv_sec = nanoseconds / 1'000'000'000;
  time.tv_nsec = nanoseconds % 1'000'000'000;
  return time;
}

}  // namespace

void SharedCounter::sleep(uint32_t seen, int64_t nanoseconds) {
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  if (value_.load(std::memory_order_seq_cst) == seen) {
    const timespec timeout = as_timespec(nanoseconds);
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&value_), FUTEX_WAIT, seen, &timeout, nullptr, 0);
  }
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

void SharedCounter::wake() {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&value_), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void sleep_nanoseconds(int64_t nanoseconds) {
  const timespec time = as_timespec(nanoseconds);
  nanosleep(&time, nullptr);
}

int64_t now_nanoseconds() {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

}  // namespace reshard::comm::mpi
