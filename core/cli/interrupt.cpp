#include "cli/interrupt.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include <pthread.h>
#include <ucontext.h>
#include <unistd.h>

#include "reshard/error.h"

namespace reshard::cli {
namespace {

sigset_t watched() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

// Runs only in a thread that does not block the signals. It blocks them there for good (the mask that the thread
// returns to is in its context) and sends the signal to the process again, whose waiting thread then receives it.
void pass_on(int signal, siginfo_t*, void* context) {
  auto* returns_to = static_cast<ucontext_t*>(context);
  sigaddset(&returns_to->uc_sigmask, SIGINT);
  sigaddset(&returns_to->uc_sigmask, SIGTERM);
  kill(getpid(), signal);
}

}  // namespace

Interrupt::Interrupt(std::string program) : program_(std::move(program)) {
  const sigset_t set = watched();
  pthread_sigmask(SIG_BLOCK, &set, &before_);
  struct sigaction action {};
  action.sa_sigaction = pass_on;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  action.sa_mask = set;
  sigaction(SIGINT, &action, &int_before_);
  sigaction(SIGTERM, &action, &term_before_);
  watcher_ = std::thread([this] { watch(); });
}

Interrupt::~Interrupt() {
  ending_.store(true);
  pthread_kill(watcher_.native_handle(), SIGTERM);  // to that thread alone: it wakes up and sees that it ends
  watcher_.join();
  sigaction(SIGINT, &int_before_, nullptr);
  sigaction(SIGTERM, &term_before_, nullptr);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void Interrupt::watch() {
  const sigset_t set = watched();
  while (true) {
    int signal = 0;
    if (sigwait(&set, &signal) != 0) continue;
    if (ending_.load()) return;
    if (!asked_.load(std::memory_order_relaxed)) {
      std::fprintf(stderr, "%s: stopped by %s before the first step\n", program_.c_str(),
                   signal == SIGTERM ? "SIGTERM" : "SIGINT");
      _exit(
          exit_code(ErrorCode::interrupted));  // ranks may be anywhere: nothing is waited for, or taken down under them
    }
    if (!came()) {
      signal_.store(signal, std::memory_order_relaxed);
      continue;
    }
    std::signal(signal, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
    raise(signal);
  }
}

}  // namespace reshard::cli
