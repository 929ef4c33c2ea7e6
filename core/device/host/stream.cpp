#include <pthread.h>

#include <array>
#include <atomic>
#include <exception>
#include <thread>

#include "base/check.h"
#include "device/device.h"
#include "device/host/wait.h"

namespace reshard::device {
namespace {

class InlineStream final : public Stream {
 public:
  void submit(const Task& task) override { task.function(task.payload); }
  Event record() override { return {}; }
  void synchronize() override {}
  void drain() noexcept override {}
  void restart() noexcept override {}
  bool concurrent() const override { return false; }

 private:
  bool done(uint64_t) const override { return true; }
  void wait(uint64_t) override {}
};

// A ring of tasks between the owner, who alone raises `submitted`, and the worker, who alone raises `completed`. The
// counters have 32 bits because the kernel sleeps on no other size; the owner, who knows how many tasks there ever
// were, extends them: at most kTasks are between the two.
class WorkerStream final : public Stream {
 public:
  explicit WorkerStream(const char* thread_name) : thread_([this] { work(); }) {
    pthread_setname_np(thread_.native_handle(), thread_name);
  }

  ~WorkerStream() override {
    push(Task{.payload = {}, .function = nullptr});  // the worker's sign to end
    thread_.join();
  }

  void submit(const Task& task) override {
    RESHARD_CHECK(task.function != nullptr, "a task has a function");
    rethrow();
    push(task);
  }

  Event record() override {
    rethrow();
    return {this, submitted_};
  }

  void synchronize() override { wait(submitted_); }
  void drain() noexcept override { await(submitted_); }

  void restart() noexcept override {
    drain();
    failed_.store(false, std::memory_order_relaxed);  // the worker sees it with the next task
    error_ = nullptr;
  }

  bool concurrent() const override { return true; }

 private:
  static constexpr uint32_t kTasks = 1024;

  bool done(uint64_t ticket) const override { return completed() >= ticket; }

  void wait(uint64_t ticket) override {
    await(ticket);
    rethrow();
  }

  void await(uint64_t ticket) noexcept {
    wait_for(
        completed_counter_, patience_, [&](uint32_t) { return completed() >= ticket; }, [] {});
  }

  uint64_t completed() const {
    return submitted_ - static_cast<uint32_t>(static_cast<uint32_t>(submitted_) - completed_counter_.value());
  }

  void push(const Task& task) noexcept {
    if (submitted_ >= kTasks) await(submitted_ - kTasks + 1);
    ring_[submitted_ % kTasks] = task;
    ++submitted_;
    submitted_counter_.set(static_cast<uint32_t>(submitted_));
  }

  void rethrow() {
    if (failed_.load(std::memory_order_acquire)) std::rethrow_exception(error_);
  }

  void work() {
    for (uint32_t next = 0;; ++next) {
      wait_for(
          submitted_counter_, patience_, [&](uint32_t submitted) { return submitted != next; }, [] {});
      const Task& task = ring_[next % kTasks];
      if (task.function == nullptr) return;
      if (!failed_.load(std::memory_order_relaxed)) run(task);
      completed_counter_.set(next + 1);
    }
  }

  // Publishes the failure after the handler is left, so that the worker's hold on the exception is gone by then.
  void run(const Task& task) {
    bool failed = false;
    try {
      task.function(task.payload);
    } catch (...) {
      error_ = std::current_exception();
      failed = true;
    }
    if (failed) failed_.store(true, std::memory_order_release);
  }

  const Patience patience_{.spins = 200, .yields = 20};  // a worker shares its core with a rank more often than not
  std::array<Task, kTasks> ring_;
  uint64_t submitted_ = 0;  // the owner's
  Counter submitted_counter_, completed_counter_;
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;  // written once, before failed_, until a restart
  std::thread thread_;        // last: it uses all of the above
};

}  // namespace

std::unique_ptr<Stream> make_inline_stream() {
  return std::make_unique<InlineStream>();
}

std::unique_ptr<Stream> make_worker_stream(const char* thread_name) {
  return std::make_unique<WorkerStream>(thread_name);
}

}  // namespace reshard::device
