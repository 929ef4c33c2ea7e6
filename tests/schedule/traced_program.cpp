#include "tests/schedule/traced_program.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "tests/schedule/plain_unit.h"

namespace reshard::schedule {
namespace {

bool lists(const TracedUnit& unit) {
  return unit.decision.prefetch_forward > 0;
}

// Cuts the distances of unit `u` to what its neighbours with lists of their own leave.
void end_lists(const std::vector<TracedUnit>& units, std::size_t u, Decision& decision) {
  int after = 0, before = 0;
  for (std::size_t next = u + 1; next < units.size() && lists(units[next]); ++next) ++after;
  for (std::size_t next = u; next-- > 1 && lists(units[next]);) ++before;
  decision.prefetch_forward = std::min(decision.prefetch_forward, after);
  decision.prefetch_backward = std::max(1, std::min(decision.prefetch_backward, before));
}

std::size_t equal_events(const std::vector<std::string>& ours, const std::vector<std::string>& theirs) {
  const auto ends = std::mismatch(ours.begin(), ours.end(), theirs.begin(), theirs.end());
  return static_cast<std::size_t>(ends.first - ours.begin());
}

}  // namespace

TracedProgram::TracedProgram(const Trace& trace, const Reading& reading)
    : trace_(trace), reading_(reading), waiting_(trace.units.size()) {
  drive(trace.microbatches, {});
}

std::vector<std::string> TracedProgram::run() {
  train();
  events_.clear();
  unused_ = -scheduler_->prefetches_unused();
  for (const TracedStep& step : trace_.steps) {
    // A step of another number of micro-batches: a run that goes on, so the order is known.
    if (step.microbatches > 0 && step.microbatches != scheduler_->step().microbatches)
      drive(step.microbatches, scheduler_->recorded_order());
    for (int pass = 0; pass < step.evaluations; ++pass) evaluate();
    if (step.microbatches > 0) train();
  }
  std::vector<std::string> events;
  for (const Event& event : events_) events.push_back(event.text);
  return events;
}

std::vector<std::string> TracedProgram::useful_events() const {
  std::vector<std::string> events;
  for (const Event& event : events_)
    if (event.used) events.push_back(event.text);
  return events;
}

Step TracedProgram::step(int microbatches) const {
  Step step;
  step.shards = trace_.shards;
  step.replicas = trace_.ranks / trace_.shards;
  step.microbatches = microbatches;
  step.all_reduce = trace_.all_reduce;
  step.backward_order = reading_.order;
  for (std::size_t u = 0; u < trace_.units.size(); ++u) {
    const TracedUnit& unit = trace_.units[u];
    Decision decision = unit.decision;
    if (reading_.lists_end && lists(unit)) end_lists(trace_.units, u, decision);
    step.units.push_back(plain_unit(decision, unit.empty ? 0 : 256, !unit.frozen));
    step.units.back().read_in_backward = unit.read_in_backward;
    step.forward_order.push_back(static_cast<int>(u));
  }
  return step;
}

void TracedProgram::drive(int microbatches, std::vector<int> recorded) {
  const Step next = step(microbatches);
  if (scheduler_) unused_ += scheduler_->prefetches_unused();
  scheduler_.emplace(next, std::move(recorded));
  verifier_.emplace(next);
}

void TracedProgram::evaluate() {
  say("evaluate");
  hook(Hook::begin_evaluation);
  forward();
  hook(Hook::end_evaluation);
}

void TracedProgram::train() {
  hook(Hook::begin_step);
  for (int m = 0; m < scheduler_->step().microbatches; ++m) {
    say(fmt::format("micro_batch {}", m));
    hook(Hook::begin_micro_batch);
    forward();
    backward();
  }
  hook(Hook::reduce);
  hook(Hook::update);
  say("update");
  hook(Hook::end_step);
}

void TracedProgram::forward() {
  hook(Hook::before_forward, 0);
  for (int unit = 1; unit < count(); ++unit) {
    if (at(unit).unused) continue;
    hook(Hook::before_forward, unit);
    hook(Hook::after_forward, unit);
  }
  hook(Hook::after_forward, 0);
}

void TracedProgram::backward() {
  hook(Hook::before_backward, 0);
  for (int unit = count() - 1; unit >= 1; --unit)
    if (!at(unit).unused) backward(unit);
  if (at(0).recompute) recompute(0);
  hook(Hook::after_backward, 0);
}

void TracedProgram::backward(int unit) {
  hook(Hook::before_backward, unit);
  if (at(unit).recompute) recompute(unit);
  hook(Hook::after_backward, unit);
}

void TracedProgram::recompute(int unit) {
  hook(Hook::before_forward, unit);
  hook(Hook::after_forward, unit);
}

void TracedProgram::hook(Hook hook, int unit) {
  const std::span<const Op> ops = scheduler_->on(hook, unit);
  verifier_->apply(hook, unit, ops);
  for (const Op& op : ops) note(op);
}

void TracedProgram::note(const Op& op) {
  if (op.unit < 0) return;
  const TracedUnit& unit = at(op.unit);
  std::optional<std::size_t>& waiting = waiting_[static_cast<std::size_t>(op.unit)];
  switch (op.kind) {
    case OpKind::gather: waiting = events_.size(); return say(fmt::format("gather {} {}", unit.name, op.ranks));
    case OpKind::free: return free(op.unit);
    case OpKind::shrink: return say(fmt::format("shrink {} {}", unit.name, op.ranks));
    case OpKind::reduce: return say(fmt::format("reduce {} {}", unit.name, op.ranks));
    case OpKind::all_reduce: return say(fmt::format("all_reduce {} {}", unit.name, op.ranks));
    case OpKind::forward_begin: waiting.reset(); return say("forward " + unit.name.substr(0, unit.name.find(", ")));
    case OpKind::backward_begin: return waiting.reset();
    case OpKind::backward_end:  // PyTorch sees no backward of a unit that owns nothing
      if (!unit.empty) say("backward " + unit.name);
      return;
    default: return;
  }
}

void TracedProgram::free(int unit) {
  std::optional<std::size_t>& waiting = waiting_[static_cast<std::size_t>(unit)];
  if (!waiting) return say("free " + at(unit).name);
  events_[*waiting].used = false;
  waiting.reset();
}

int64_t TracedProgram::unused() const {
  return unused_ + scheduler_->prefetches_unused();
}

std::vector<std::string> moving_events(const Trace& trace) {
  std::set<std::string> closed;
  for (const TracedUnit& unit : trace.units)
    if (unit.unused) closed.insert("backward " + unit.name);
  const auto still = [&](const std::string& event) {
    if (closed.contains(event)) return true;
    const bool copy = event.starts_with("free ") || event.starts_with("reduce ");
    if (trace.shards == 1 && copy) return true;
    return trace.ranks == trace.shards && event.starts_with("all_reduce ");
  };
  std::vector<std::string> moving;
  std::remove_copy_if(trace.events.begin(), trace.events.end(), std::back_inserter(moving), still);
  return moving;
}

Reading closest_reading(const Trace& trace) {
  const std::vector<std::string> theirs = moving_events(trace);
  Reading closest;
  std::size_t most = 0;
  for (const BackwardOrder order : {BackwardOrder::since_backward, BackwardOrder::since_step}) {
    for (const bool lists_end : {false, true}) {
      const Reading reading{order, lists_end};
      const std::vector<std::string> ours = TracedProgram(trace, reading).run();
      if (ours == theirs) return reading;
      if (const std::size_t equal = equal_events(ours, theirs); equal > most) most = equal, closest = reading;
    }
  }
  return closest;
}

}  // namespace reshard::schedule
