#pragma once

// Where all ranks meet after an interruption. The last one to come cleans up while all others wait here, so nobody is
// in a collective then.
//
// Threads: any; each rank is here once at a time.

#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "comm/local/failure.h"
#include "device/host/wait.h"

namespace reshard::comm {

class Recovery {
 public:
  explicit Recovery(int ranks);

  struct Limits {
    device::Patience patience;
    double timeout_seconds = 0;
  };

  // Waits for all ranks; `clean` runs once, before anybody goes on. Ends with the final failure where there is one, or
  // becomes one by a rank that has left or does not come in time.
  void meet(int rank, Failure& failure, const Limits& limits, const std::function<void()>& clean);

 private:
  void check(int rank, uint32_t round, Failure& failure, bool late, double timeout_seconds);

  std::mutex mutex_;
  std::vector<char> here_;  // one per rank
  size_t missing_;
  device::Counter round_;  // rises when all have come
};

}  // namespace reshard::comm
