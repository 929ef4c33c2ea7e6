#pragma once

// From the job's [optimizer] table to the optimizer and the learning rate of a step.

#include <cstdint>
#include <memory>

#include "reshard/job.h"
#include "reshard/optimizer.h"

namespace reshard::engine {

// Throws Error(config) for "program": the program has to hand one over.
std::unique_ptr<Optimizer> make_optimizer(const Job& job);

// What lr is multiplied with at a step (from 0).
double learning_rate_multiplier(const Job& job, int64_t step);

}  // namespace reshard::engine
