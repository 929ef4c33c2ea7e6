#include "tests/schedule/program.h"

#include <algorithm>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "base/math.h"
#include "model/layout.h"
#include "schedule/declared.h"
#include "tests/schedule/plain_unit.h"

namespace reshard::schedule {

Model random_model(Dice& dice, int most_units) {
  const int units = dice.chance(0.1) ? 1 : dice.roll(1, most_units);
  const auto parameters = [&](int unit, bool may_be_empty) {
    std::vector<Parameter> made;
    const int count = may_be_empty && dice.chance(0.3) ? 0 : dice.roll(1, 3);
    for (int p = 0; p < count; ++p)
      made.push_back({.name = std::to_string(unit) + "." + std::to_string(p),
                      .shape = {dice.pick<int64_t>({1, 1, 2, 63, 64, 65, 127, 997, 4096, dice.roll(1, 20000)})}});
    return made;
  };
  Model model({.name = "root", .parameters = parameters(0, true), .saved_bytes = dice.pick<int64_t>({0, 640})});
  for (int u = 1; u < units; ++u) {
    const int parent = dice.chance(0.6) ? 0 : dice.roll(0, u - 1);
    model.add({.name = "u" + std::to_string(u),
               .parameters = parameters(u, dice.chance(0.1)),
               .saved_bytes = dice.pick<int64_t>({0, 1000, 4096}),
               .repeats = dice.chance(0.15) ? dice.roll(2, 3) : 1},
              {parent});
  }
  return model;
}

Step plain_step(const Model& model, int shards, int replicas, int microbatches, const Decision& decision) {
  Step step;
  step.shards = shards;
  step.replicas = replicas;
  step.microbatches = microbatches;
  step.forward_order = model.forward_order();
  for (const UnitSpec& unit : model.units()) {
    std::vector<int64_t> elements;
    for (const Parameter& parameter : unit.parameters) elements.push_back(parameter.elements());
    const int64_t shard = model::Layout(elements, shards).shard_elements() * static_cast<int64_t>(sizeof(float));
    step.units.push_back(plain_unit(decision, shard, true, unit.saved_bytes));
  }
  return step;
}

Step random_step(Dice& dice, const Model& model) {
  Step step = plain_step(model, dice.pick({1, 2, 2, 3, 4, 6, 8}), dice.pick({1, 1, 2, 3, 4}), dice.roll(1, 4), {});
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
    if (dice.chance(0.15)) unit.gradient_bytes = unit.reduced_bytes = 0;
  }
  return step;
}

Program::Program(const Model& model, Step step, Dice& dice)
    : model_(model),
      dice_(dice),
      scheduler_(step),
      verifier_(step),
      children_(static_cast<std::size_t>(model.unit_count())),
      gathered_(static_cast<std::size_t>(model.unit_count())) {
  for (int unit = 1; unit < model.unit_count(); ++unit)
    children_[static_cast<std::size_t>(model.parent({unit}).index)].push_back(unit);
}

void Program::hook(Hook hook, int unit) {
  if (hooks_until_throw_ == 0) throw Thrown{};
  if (hooks_until_throw_ > 0) --hooks_until_throw_;
  const std::span<const Op> ops = scheduler_.on(hook, unit);
  verifier_.apply(hook, unit, ops);
  totals_.apply(hook, unit, scheduler_.micro_batch(), ops);
  watch(unit, ops);
  const int64_t activations = totals_.now()[static_cast<std::size_t>(MemoryCategory::activations)];
  ASSERT_TRUE(hook != Hook::begin_micro_batch || activations == 0) << "what no backward came for is dropped";
  ASSERT_EQ(totals_.now(), verifier_.live()) << "after " << name(hook) << " of unit " << unit;
  ASSERT_EQ(totals_.peak_bytes(), verifier_.peak_bytes()) << "after " << name(hook) << " of unit " << unit;
}

bool Program::encloses(int outer, int inner) const {
  while (inner > 0) {
    inner = model_.parent({inner}).index;
    if (inner == outer) return true;
  }
  return false;
}

// Counts the units that a gather made whole, or is making: kept ones, the root and whatever encloses the present unit
// apart.
void Program::watch(int unit, std::span<const Op> ops) {
  for (const Op& op : ops) {
    const auto at = static_cast<std::size_t>(std::max(op.unit, 0));
    if (op.kind == OpKind::gather) gathered_[at] = true;
    if (op.kind == OpKind::free || op.kind == OpKind::shrink) gathered_[at] = false;
    if (op.kind != OpKind::gather) continue;
    int live = 0;
    for (int u = 1; u < model_.unit_count(); ++u) {
      const Decision& decision = scheduler_.step().units[static_cast<std::size_t>(u)].decision;
      const bool kept =
          decision.after_forward == AfterForward::keep() || decision.after_backward == AfterBackward::keep;
      if (gathered_[static_cast<std::size_t>(u)] && !kept && !encloses(u, unit)) ++live;
    }
    most_live_gathers_ = std::max(most_live_gathers_, live);
  }
}

void Program::declared_step() {
  std::vector<std::pair<Hook, int>> calls;  // of a scheduler of its own: the same hooks are then given to ours
  Scheduler guide(scheduler_.step());
  schedule::declared_step(model_, guide,
                          [&](Hook hook, int unit, std::span<const Op>) { calls.emplace_back(hook, unit); });
  for (const auto& [call, unit] : calls) hook(call, unit);
}

Run Program::random_run(int unit, double skip) {
  Run run{unit, {}};
  std::vector<int> order = children_[static_cast<std::size_t>(unit)];
  if (dice_.chance(0.3)) std::shuffle(order.begin(), order.end(), dice_.engine());
  for (const int child : order) {
    if (dice_.chance(skip)) continue;
    const int times = dice_.chance(0.1) ? dice_.roll(2, 3) : 1;
    for (int t = 0; t < times; ++t) run.inside.push_back(random_run(child, skip));
  }
  if (dice_.chance(0.05)) run.inside.push_back({unit, {}});  // inside itself
  return run;
}

// One root around all, or (bare hooks) each unit of the first level on its own.
std::vector<Run> Program::random_pass(double skip) {
  Run root = random_run(0, skip);
  if (!dice_.chance(0.15)) return {root};
  std::vector<Run> apart;
  apart.push_back({0, {}});
  for (Run& run : root.inside) apart.push_back(std::move(run));
  std::shuffle(apart.begin(), apart.end(), dice_.engine());
  return apart;
}

void Program::forward(const Run& run) {
  hook(Hook::before_forward, run.unit);
  for (const Run& inside : run.inside) forward(inside);
  hook(Hook::after_forward, run.unit);
}

void Program::backward(const Run& run, double skip, double recompute) {
  if (dice_.chance(skip)) return;  // its result is in no loss
  hook(Hook::before_backward, run.unit);
  if (dice_.chance(recompute)) forward(run);
  for (auto inside = run.inside.rbegin(); inside != run.inside.rend(); ++inside) backward(*inside, skip, recompute);
  hook(Hook::after_backward, run.unit);
}

void Program::micro_batch(bool last) {
  hook(Hook::begin_micro_batch);
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

void Program::random_step() {
  hook(Hook::begin_step);
  for (int m = 0; m < scheduler_.step().microbatches; ++m) micro_batch(m + 1 == scheduler_.step().microbatches);
  if (dice_.chance(0.7)) hook(Hook::reduce);
  hook(Hook::update);
  hook(Hook::end_step);
}

void Program::random_evaluation() {
  hook(Hook::begin_evaluation);
  for (int pass = dice_.roll(0, 3); pass > 0; --pass)
    for (const Run& run : random_pass(0.1)) forward(run);
  hook(Hook::end_evaluation);
}

void Program::random_reads() {
  for (int reads = dice_.roll(1, 4); reads > 0; --reads) {
    const int unit = dice_.roll(0, model_.unit_count() - 1);
    const bool twice = dice_.chance(0.3);
    hook(Hook::before_read, unit);
    if (twice) hook(Hook::before_read, unit);
    if (twice) hook(Hook::after_read, unit);
    hook(Hook::after_read, unit);
  }
}

void Program::abandoned_step() {
  hooks_until_throw_ = dice_.roll(0, 6 * scheduler_.step().microbatches * model_.unit_count());
  try {
    random_step();
    random_evaluation();
    random_reads();
  } catch (const Thrown&) {
  }
  hooks_until_throw_ = -1;
  hook(Hook::abandon);
}

}  // namespace reshard::schedule
