#pragma once

// From the job's [optimizer] table to the optimizer and the learning rate of a step.

#include <cstdint>
#include <memory>

#include "reshard/job.h"
#include "reshard/model.h"
#include "reshard/optimizer.h"

namespace reshard::engine {

// The optimizer that the job names; `own` is the program's, which is used exactly when the name is "program". Throws
// Error(config) when one is handed over and another named, or the other way round.
std::unique_ptr<Optimizer> choose_optimizer(const Job& job, std::unique_ptr<Optimizer> own);

inline constexpr int kMostStates = 8;  // state tensors of an optimizer

// How many state tensors it names. Throws Error(model) naming the first that a checkpoint could not tell from another
// one: no word, or a word twice. So for too many.
int checked_states(const Optimizer& optimizer);

// What a parameter's update has of its own: the program's word, then the job's [[optimizer.group]].
ParameterGroup parameter_group(const Job& job, const Parameter& parameter);

// What lr is multiplied with at a step (from 0).
double learning_rate_multiplier(const Job& job, int64_t step);

}  // namespace reshard::engine
