#pragma once

// SIGINT and SIGTERM as a question that ranks ask between two micro-batches. The first signal only sets the answer; a
// second one ends the process at once, as if nobody listened.
//
// Until the steps begin there is nothing that could be shown or saved, and nobody asks: plans are made, ranks start,
// which may take long. Then the first signal ends the process at once, with a line on stderr and exit code 130.
//
// There is no flag that a handler writes: the signals are blocked, and a thread of this object waits for them.
// REQUIRES: made on the thread that starts the ranks, before they start, so that they inherit the blocked signals.
// Threads that are older (a math library's) may still be handed a signal; their handler passes it on to the process.

#include <atomic>
#include <csignal>
#include <string>
#include <thread>

namespace reshard::cli {

class Interrupt {
 public:
  explicit Interrupt(std::string program);  // its name, for that line
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // The ranks have started, and ask from here on. Any thread, any number of times.
  void steps_begin() const { asked_.store(true, std::memory_order_relaxed); }

  // The signal that came, 0 = none. Any thread.
  int signal() const { return signal_.load(std::memory_order_relaxed); }
  bool came() const { return signal() != 0; }

 private:
  void watch();

  const std::string program_;
  mutable std::atomic<bool> asked_{false};
  std::atomic<int> signal_{0};
  std::atomic<bool> ending_{false};
  sigset_t before_{};
  struct sigaction int_before_ {
  }, term_before_{};
  std::thread watcher_;
};

}  // namespace reshard::cli
