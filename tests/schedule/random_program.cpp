#include "tests/schedule/random_program.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/math.h"
#include "schedule/declared.h"

namespace reshard::schedule {

Model random_model(Dice& dice, int most_units, int most_elements, double unused) {
  const int units = dice.chance(0.1) ? 1 : dice.roll(1, most_units);
  const auto parameters = [&](int unit, bool may_be_empty) {
    std::vector<Parameter> made;
    const int count = may_be_empty && dice.chance(0.3) ? 0 : dice.roll(1, 3);
    const bool frozen = dice.chance(0.1);
    for (int p = 0; p < count; ++p)
      made.push_back({.name = std::to_string(unit) + "." + std::to_string(p),
                      .shape = {std::min(most_elements, dice.pick({1, 1, 2, 63, 64, 65, 127, 997, 4096,
                                                                   dice.roll(1, most_elements)}))},
                      .decay = dice.chance(0.5),
                      .lr_scale = dice.pick({1.0, 1.0, 0.5}),
                      .trainable = !frozen && !dice.chance(0.1)});
    return made;
  };
  Model model({.name = "root", .parameters = parameters(0, true), .saved_bytes = dice.pick<int64_t>({0, 640})});
  for (int u = 1; u < units; ++u) {
    const int parent = dice.chance(0.6) ? 0 : dice.roll(0, u - 1);
    model.add({.name = "u" + std::to_string(u),
               .parameters = parameters(u, dice.chance(0.1)),
               .saved_bytes = dice.pick<int64_t>({0, 1000, 4096}),
               .repeats = dice.chance(0.15) ? dice.roll(2, 3) : 1,
               .param_dtype = dice.pick<std::optional<Dtype>>({{}, {}, {}, Dtype::bf16}),
               .needs_parameters_in_backward = !dice.chance(0.1),
               .may_be_unused = unused > 0 && dice.chance(unused)},
              {parent});
  }
  return model;
}

Step plain_step(const Model& model, int shards, int replicas, int microbatches, const Decision& decision) {
  Step step = step_of(model, {.shards = shards, .replicas = replicas}, microbatches, {});
  for (ScheduledUnit& unit : step.units) unit.decision = decision;
  return step;
}

Step random_step(Dice& dice, const Model& model) {
  const Precision precision{dice.pick({Dtype::fp32, Dtype::bf16}), dice.pick({Dtype::fp32, Dtype::fp32, Dtype::bf16})};
  Step step = step_of(model, {dice.pick({1, 2, 2, 3, 4, 6, 8}), dice.pick({1, 1, 2, 3, 4})}, dice.roll(1, 4), precision);
  step.divide_at_end = dice.chance(0.2);
  step.all_reduce = dice.pick({AllReduce::each, AllReduce::last});
  step.overlap = dice.chance(0.5);
  const std::vector<int> divisors = base::divisors(step.shards);
  for (ScheduledUnit& unit : step.units) {
    Decision& decision = unit.decision;
    decision.after_forward = dice.pick({AfterForward::free(), AfterForward::keep()});
    if (divisors.size() > 2 && dice.chance(0.4))
      decision.after_forward =
          AfterForward::shrink(divisors[static_cast<std::size_t>(dice.roll(1, static_cast<int>(divisors.size()) - 2))]);
    decision.after_backward = dice.pick({AfterBackward::free, AfterBackward::keep});
    decision.reduce = dice.pick({Reduce::each, Reduce::last});
    decision.prefetch_forward = dice.roll(0, dice.pick({0, 1, 2, kMaxPrefetch}));
    decision.prefetch_backward = dice.roll(0, dice.pick({0, 1, 2, kMaxPrefetch}));
  }
  return step;
}

HookCalls declared_calls(const Model& model, const Step& step) {
  HookCalls calls;
  Scheduler guide(step);
  declared_step(model, guide, [&](Hook hook, int unit, std::span<const Op>) { calls.push_back({hook, unit}); });
  return calls;
}

HookCalls leave_out(Dice& dice, const Step& step, const HookCalls& calls) {
  enum class Fate : uint8_t { undecided, kept, left_out };
  std::vector<Fate> fates;  // by run
  std::vector<bool> without_backward;
  for (const ScheduledUnit& unit : step.units) without_backward.push_back(unit.may_be_unused && dice.chance(0.2));
  const auto fate = [&](const HookCall& call) {
    const auto run = static_cast<std::size_t>(call.run);
    if (fates.size() <= run) fates.resize(run + 1, Fate::undecided);
    if (fates[run] == Fate::undecided)
      fates[run] = step.units[static_cast<std::size_t>(call.unit)].may_be_unused
                       ? dice.pick({Fate::kept, Fate::left_out})
                       : Fate::kept;
    return fates[run];
  };
  HookCalls left;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const HookCall& call = calls[i];
    const bool backward = call.hook == Hook::before_backward;
    const bool begins = backward || call.hook == Hook::before_forward;
    if (begins && (fate(call) == Fate::left_out || (backward && without_backward[static_cast<std::size_t>(call.unit)]))) {
      const Hook end = backward ? Hook::after_backward : Hook::after_forward;
      while (calls[i].hook != end || calls[i].run != call.run) ++i;
      continue;
    }
    left.push_back(call);
  }
  return left;
}

RandomProgram::RandomProgram(const Model& model, Dice& dice, bool shared)
    : model_(model), dice_(dice), shared_(shared), children_(static_cast<std::size_t>(model.unit_count())) {
  for (int unit = 1; unit < model.unit_count(); ++unit)
    children_[static_cast<std::size_t>(model.parent({unit}).index)].push_back(unit);
}

bool RandomProgram::optional(int unit) const {
  for (; unit != 0; unit = model_.parent({unit}).index)
    if (model_.spec({unit}).may_be_unused) return true;
  return false;
}

// Of the units inside of `unit`.
std::vector<int> RandomProgram::random_order(int unit) {
  std::vector<int> order = children_[static_cast<std::size_t>(unit)];
  if (!dice_.chance(0.3)) return order;
  if (!shared_) {
    std::shuffle(order.begin(), order.end(), dice_.engine());
    return order;
  }
  std::vector<std::vector<int>> rows{{}};  // an ordinary unit and the optional ones behind it
  for (const int child : order) {
    if (!optional(child)) rows.push_back({});
    rows.back().push_back(child);
  }
  std::shuffle(rows.begin() + 1, rows.end(), dice_.engine());
  order.clear();
  for (const std::vector<int>& row : rows) order.insert(order.end(), row.begin(), row.end());
  return order;
}

RandomProgram::Run RandomProgram::random_run(int unit, double skip) {
  Run run{unit, numbers_++, {}};
  const std::vector<int> order = random_order(unit);
  const bool moved = shared_ && order != children_[static_cast<std::size_t>(unit)];
  for (const int child : order) {
    if (dice_.chance(skip) && (!moved || optional(child))) continue;
    const bool declared = shared_ && optional(child);
    const int times = declared ? model_.spec({child}).repeats : dice_.chance(0.1) ? dice_.roll(2, 3) : 1;
    for (int t = 0; t < times; ++t) run.inside.push_back(random_run(child, skip));
  }
  if (!shared_ && dice_.chance(0.05)) run.inside.push_back({unit, numbers_++, {}});  // inside itself
  return run;
}

// One root around all, or (bare hooks) each unit of the first level on its own.
std::vector<RandomProgram::Run> RandomProgram::random_pass(double skip) {
  Run root = random_run(0, skip);
  if (shared_ || !dice_.chance(0.15)) return {root};
  std::vector<Run> apart;
  apart.push_back({0, numbers_++, {}});
  for (Run& run : root.inside) apart.push_back(std::move(run));
  std::shuffle(apart.begin(), apart.end(), dice_.engine());
  return apart;
}

void RandomProgram::forward(const Run& run) {
  call(Hook::before_forward, run.unit, run.number);
  for (const Run& inside : run.inside) forward(inside);
  call(Hook::after_forward, run.unit, run.number);
}

void RandomProgram::backward(const Run& run, double skip, double recompute) {
  if (dice_.chance(skip) && !shared_) return;  // its result is in no loss
  call(Hook::before_backward, run.unit, run.number);
  if (dice_.chance(recompute) && !(shared_ && optional(run.unit))) forward(run);
  for (auto inside = run.inside.rbegin(); inside != run.inside.rend(); ++inside) backward(*inside, skip, recompute);
  call(Hook::after_backward, run.unit, run.number);
}

void RandomProgram::micro_batch(bool last) {
  call(Hook::begin_micro_batch);
  const double skip = dice_.pick({0.0, 0.0, 0.2}), unused = dice_.pick({0.0, 0.0, 0.15}),
               recompute = dice_.pick({0.0, 0.3, 1.0});
  const int passes = dice_.chance(0.15) ? 2 : 1;
  const bool in_turns = !last && dice_.chance(0.5);  // forward, backward, forward, backward
  std::vector<Run> runs;
  for (int pass = 0; pass < passes; ++pass) {
    const std::vector<Run> made = random_pass(skip);
    for (const Run& run : made) forward(run);
    runs.insert(runs.end(), made.begin(), made.end());
    if (!in_turns) continue;
    for (auto run = runs.rbegin(); run != runs.rend(); ++run) backward(*run, unused, recompute);
    runs.clear();
  }
  for (auto run = runs.rbegin(); run != runs.rend(); ++run) backward(*run, unused, recompute);
}

// Forward and backward passes of several micro-batches in any order; each micro-batch's own stay in theirs.
void RandomProgram::in_flight(int microbatches) {
  const double skip = dice_.pick({0.0, 0.2}), unused = dice_.pick({0.0, 0.15}), recompute = dice_.pick({0.0, 0.3});
  std::vector<int> pieces;  // a micro-batch's first piece is its forward pass, the second its backward pass
  for (int m = 0; m < microbatches; ++m) pieces.insert(pieces.end(), 2, m);
  std::shuffle(pieces.begin(), pieces.end(), dice_.engine());
  std::vector<std::vector<Run>> runs(static_cast<std::size_t>(microbatches));
  for (const int m : pieces) {
    std::vector<Run>& mine = runs[static_cast<std::size_t>(m)];
    call(Hook::enter_micro_batch, m);
    if (mine.empty()) {
      mine = random_pass(skip);
      for (const Run& run : mine) forward(run);
    } else {
      for (auto run = mine.rbegin(); run != mine.rend(); ++run) backward(*run, unused, recompute);
    }
  }
}

HookCalls RandomProgram::step(int microbatches) {
  numbers_ = 0;
  call(Hook::begin_step);
  if (microbatches > 1 && dice_.chance(0.25))
    in_flight(microbatches);
  else
    for (int m = 0; m < microbatches; ++m) micro_batch(m + 1 == microbatches);
  if (dice_.chance(0.7)) call(Hook::reduce);
  call(Hook::update);
  call(Hook::end_step);
  return std::exchange(calls_, {});
}

HookCalls RandomProgram::evaluation() {
  numbers_ = 0;
  call(Hook::begin_evaluation);
  for (int pass = dice_.roll(0, 3); pass > 0; --pass)
    for (const Run& run : random_pass(0.1)) forward(run);
  call(Hook::end_evaluation);
  return std::exchange(calls_, {});
}

HookCalls RandomProgram::reads() {
  for (int reads = dice_.roll(1, 4); reads > 0; --reads) {
    const int unit = dice_.roll(0, model_.unit_count() - 1);
    const bool twice = dice_.chance(0.3);
    call(Hook::before_read, unit);
    if (twice) call(Hook::before_read, unit);
    if (twice) call(Hook::after_read, unit);
    call(Hook::after_read, unit);
  }
  return std::exchange(calls_, {});
}

}  // namespace reshard::schedule
