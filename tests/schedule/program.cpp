#include "tests/schedule/program.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace reshard::schedule {

Program::Program(const Model& model, Step step, Dice& dice)
    : model_(model),
      dice_(dice),
      random_(model, dice),
      scheduler_(step),
      verifier_(step),
      gathered_(static_cast<std::size_t>(model.unit_count())) {}

void Program::hook(Hook hook, int unit) {
  const std::span<const Op> ops = scheduler_.on(hook, unit);
  verifier_.apply(hook, unit, ops);
  totals_.apply(hook, unit, scheduler_.micro_batch(), ops);
  watch(unit, ops);
  const int64_t activations = totals_.now()[static_cast<std::size_t>(MemoryCategory::activations)];
  ASSERT_TRUE(hook != Hook::begin_micro_batch || activations == 0) << "what no backward came for is dropped";
  ASSERT_EQ(totals_.now(), verifier_.live()) << "after " << name(hook) << " of unit " << unit;
  ASSERT_EQ(totals_.peak_bytes(), verifier_.peak_bytes()) << "after " << name(hook) << " of unit " << unit;
}

void Program::play(const HookCalls& calls) {
  for (const HookCall& call : calls) hook(call.hook, call.unit);
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

void Program::abandoned_step() {
  HookCalls calls = random_.step(scheduler_.step().microbatches);
  for (const HookCalls& more : {random_.evaluation(), random_.reads()})
    calls.insert(calls.end(), more.begin(), more.end());
  calls.resize(static_cast<std::size_t>(dice_.roll(0, static_cast<int>(calls.size()))));
  play(calls);
  hook(Hook::abandon);
}

}  // namespace reshard::schedule
