#pragma once

// SIGINT and SIGTERM as a question that ranks ask between two micro-batches. The first signal only sets the answer; a
// second one ends the process at once, as if nobody listened.
//
// There is no flag that a handler writes: the signals are blocked, and a thread of this object waits for them.
// REQUIRES: made on the thread that starts the ranks, before they start, so that they inherit the blocked signals.
// Threads that are older (a math library's) may still be handed a signal; their handler passes it on to the process.

#include <atomic>
#include <csignal>
#include <thread>

namespace reshard::cli {

class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // The signal that came, 0 = none. Any thread.
  int signal() const { return signal_.load(std::memory_order_relaxed); }
  bool came() const { return signal() != 0; }

 private:
  void watch();

  std::atomic<int> signal_{0};
  std::atomic<bool> ending_{false};
  sigset_t before_{};
  struct sigaction int_before_ {
  }, term_before_{};
  std::thread watcher_;
};

}  // namespace reshard::cli
