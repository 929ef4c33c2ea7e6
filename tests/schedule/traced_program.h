#pragma once

// Runs the program of a trace (trace_file.h) on the scheduler, every op verified, and writes the ops down as the
// recorder wrote down PyTorch's.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schedule/verify.h"
#include "tests/schedule/trace_file.h"

namespace reshard::schedule {

// What a trace's settings leave open.
struct Reading {
  // FSDP2 forgets its passes when a backward ends. The recorder's ZeRO-1 recipe postpones that to the step's last one,
  // with set_is_last_backward, which the settings do not tell from a plain "keep over the micro-batches".
  BackwardOrder order = BackwardOrder::since_backward;
  // The recorder prefetches by lists of modules, which hold blocks alone; so a list ends where units have none of their
  // own. Where a backward's list is empty, FSDP2 takes one place of its own order.
  bool lists_end = false;
};

class TracedProgram {
 public:
  TracedProgram(const Trace& trace, const Reading& reading);

  // The events from the second step on: the first is the recorder's warm-up. A prefetch that nobody used is a gather
  // without a free, because the recorder does not see PyTorch drop it.
  std::vector<std::string> run();
  std::vector<std::string> useful_events() const;  // the same without them
  int64_t unused() const;                          // such prefetches, as the scheduler counts them

 private:
  struct Event {
    std::string text;
    bool used = true;
  };

  Step step(int microbatches) const;
  void drive(int microbatches, std::vector<int> recorded);
  void evaluate();
  void train();
  void forward();
  void backward();
  void backward(int unit);
  void recompute(int unit);
  void hook(Hook hook, int unit = -1);
  void note(const Op& op);
  void free(int unit);
  void say(std::string text) { events_.push_back({std::move(text)}); }
  int count() const { return static_cast<int>(trace_.units.size()); }
  const TracedUnit& at(int unit) const { return trace_.units[static_cast<std::size_t>(unit)]; }

  const Trace& trace_;
  Reading reading_;
  std::optional<Scheduler> scheduler_;
  std::optional<Verifier> verifier_;
  std::vector<Event> events_;
  std::vector<std::optional<std::size_t>> waiting_;  // by unit: the event of a gather that has not been used
  int64_t unused_ = 0;                               // what earlier schedulers counted, less the warm-up's
};

// What PyTorch issued, less what moves nothing: the recorder also sees a group of one rank free and reduce, where the
// shard is the whole memory, and exchange with itself; Reshard makes no op of those. And it sees a unit that did not
// run being closed at the end, as a backward.
std::vector<std::string> moving_events(const Trace& trace);

// The first reading that gives the trace's events, or the one that gives most of them.
Reading closest_reading(const Trace& trace);

}  // namespace reshard::schedule
