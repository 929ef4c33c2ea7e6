#pragma once

// The declared step: the hooks that a program which does what its model declares will call. Drives explain, the predicted
// peak and the budget; the scheduler that a run uses is driven by the run's own hooks.

#include <functional>
#include <span>

#include "reshard/model.h"
#include "schedule/scheduler.h"

namespace reshard::schedule {

using OpVisitor = std::function<void(Hook hook, int unit, std::span<const Op> ops)>;

// One whole step, begin_step to end_step.
void declared_step(const Model& model, Scheduler& scheduler, const OpVisitor& visit);

// The forward hooks of one pass, then (backward = true) those of the backward pass in exact reverse.
void declared_pass(const Model& model, Scheduler& scheduler, bool backward, const OpVisitor& visit);

}  // namespace reshard::schedule
