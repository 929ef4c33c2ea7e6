#pragma once

// What the executor needs of a device: streams that run small tasks in order, and events that say how far they are.
//
// A Stream runs tasks one after the other. A host stream runs them either in submit() itself (inline) or on a thread of
// its own (worker), so that a rank's collectives overlap its kernels. Neither allocates memory nor takes a lock per
// task.
//
// Threads: one thread, the owner, uses a stream (submit, record, wait, drain). Event::done() and Event::wait() are
// called by the owner as well. Tasks run on the stream's thread.
//
// Errors: what a task throws on a worker stream is kept, the tasks behind it are skipped, and the owner gets the very
// same exception at its next submit(), record(), synchronize() or Event::wait(), and again at every later one: a stream
// that failed stays failed until restart(). An inline stream throws out of submit() and goes on.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>

#include "device/instructions.h"
#include "reshard/dtype.h"

namespace reshard::device {

class Stream;

// A function and the bytes it works on: copied into the stream, hence trivially copyable and of one size.
struct Task {
  static constexpr size_t kPayloadBytes = 112;
  using Function = void (*)(const void* payload);

  alignas(16) std::byte payload[kPayloadBytes];
  Function function = nullptr;
};
static_assert(sizeof(Task) <= 128);

// A point in a stream: done once everything that was submitted before record() has run. A plain value: copy it, keep
// many, drop it. REQUIRES: the stream outlives it. A default-made event is done.
class Event {
 public:
  Event() = default;
  Event(Stream* stream, uint64_t ticket) : stream_(stream), ticket_(ticket) {}

  bool done() const;  // never throws, never waits
  void wait() const;  // blocks the calling thread: spins briefly, then yields, then sleeps

 private:
  Stream* stream_ = nullptr;
  uint64_t ticket_ = 0;
};

class Stream {
 public:
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Runs `task` after all earlier ones. Blocks while the stream is full (1024 tasks). What the payload points to must
  // live until the task has run.
  virtual void submit(const Task& task) = 0;

  // The same for a lambda, whose captures are the payload: stream.submit([=] { … });
  template <class Function>
  requires(!std::is_same_v<std::remove_cvref_t<Function>, Task>) void submit(const Function& function) {
    static_assert(std::is_trivially_copyable_v<Function>, "a task captures plain values and pointers only");
    static_assert(sizeof(Function) <= Task::kPayloadBytes && alignof(Function) <= 16,
                  "a task's captures are too large");
    Task task;
    std::memcpy(task.payload, static_cast<const void*>(&function), sizeof(Function));
    task.function = [](const void* payload) { (*static_cast<const Function*>(payload))(); };
    submit(task);
  }

  virtual Event record() = 0;

  // Waits until all that was submitted has run; throws what a task threw.
  virtual void synchronize() = 0;

  // Waits until all that was submitted has run or been skipped. For destructors and for clearing up after an error.
  virtual void drain() noexcept = 0;

  // The same, then forgets what a task threw: the stream takes tasks again.
  virtual void restart() noexcept = 0;

  // True when tasks run on another thread, so that waiting for an event can take time.
  virtual bool concurrent() const = 0;

 protected:
  Stream() = default;

 private:
  friend class Event;
  virtual bool done(uint64_t ticket) const = 0;
  virtual void wait(uint64_t ticket) = 0;
};

inline bool Event::done() const {
  return stream_ == nullptr || stream_->done(ticket_);
}
inline void Event::wait() const {
  if (stream_ != nullptr) stream_->wait(ticket_);
}

// Tasks run inside submit(); events are always done.
std::unique_ptr<Stream> make_inline_stream();

// Tasks run on a thread of the stream's own, named `thread_name` (at most 15 characters) in debuggers and profilers.
// The destructor lets what was submitted finish, then ends the thread.
std::unique_ptr<Stream> make_worker_stream(const char* thread_name);

// Copies `bytes` bytes; the ranges must not overlap. kStreaming writes past the caches, which saves the read of the
// destination, and pays where the destination will not be read again before it would have left the caches anyway.
enum class Store : uint8_t { kCached, kStreaming };
void copy_bytes(void* destination, const void* source, size_t bytes, Store store = Store::kCached);

// For kernels with streaming stores of their own: what they wrote is seen by whoever is told of it from here on.
void order_streaming_stores();

// Writes zeros; past the caches where `bytes` is at least streaming_bytes().
void zero_bytes(void* destination, size_t bytes);

// to[i] = from[i], in the other format. Bit-equal to Bf16's own conversions with every instruction set. The ranges must
// not overlap.
void convert(const float* from, Bf16* to, size_t count, Instructions set = best_instructions());
void convert(const Bf16* from, float* to, size_t count, Instructions set = best_instructions());

// to[i] += from[i], added in fp32. The ranges must not overlap.
void add(const Bf16* from, float* to, size_t count, Instructions set = best_instructions());
void add(const float* from, float* to, size_t count, Instructions set = best_instructions());

// From how many bytes on, written in one go by all threads of the process together, streaming stores pay: measured as a
// share of the last-level cache of this machine.
size_t streaming_bytes();

}  // namespace reshard::device
