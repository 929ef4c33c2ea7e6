#pragma once

// The declared step: the hooks that a program which does what its model declares will call. Drives explain, the predicted
// peak and the budget; the scheduler that a run uses is driven by the run's own hooks.

#include <functional>
#include <span>
#include <vector>

#include "reshard/dtype.h"
#include "reshard/model.h"
#include "schedule/scheduler.h"
#include "schedule/totals.h"

namespace reshard::schedule {

struct MeshSize {
  int shards = 1, replicas = 1;
};

// What parameters are gathered and computed in where their unit does not say, and what gradients are added in.
struct Precision {
  Dtype param = Dtype::fp32, reduce = Dtype::fp32;
  std::vector<Dtype> resolved{};  // by unit, where a user's word may stand over the program's; empty: there is none
};

// What a unit is gathered and computed in.
inline Dtype computed_dtype(const Model& model, int unit, const Precision& precision) {
  if (!precision.resolved.empty()) return precision.resolved[static_cast<std::size_t>(unit)];
  return model.spec({unit}).param_dtype.value_or(precision.param);
}

// The scheduler's input for a model: every unit's bytes and the declared order, with the core's default decisions.
Step step_of(const Model& model, const MeshSize& mesh, int microbatches, const Precision& precision);

using OpVisitor = std::function<void(Hook hook, int unit, std::span<const Op> ops)>;

// One whole step, begin_step to end_step.
void declared_step(const Model& model, Scheduler& scheduler, const OpVisitor& visit);

// What the ops of one declared step add up to, on top of `resident`: declared_step driven into Totals. However many
// micro-batches a step has, a few are driven: those between the first ones and the last ones all run the same ops.
Totals declared_totals(const Model& model, const Step& step, const BytesByCategory& resident);

// The forward hooks of one pass, then (backward = true) those of the backward pass in exact reverse.
void declared_pass(const Model& model, Scheduler& scheduler, bool backward, const OpVisitor& visit);

}  // namespace reshard::schedule
