#pragma once

// The learning-rate schedule: a pure function of the step, so that a resumed or re-sharded run needs no state for it.

#include <cstdint>

namespace reshard::optim {

enum class Decay { constant, cosine };

struct Schedule {
  Decay decay = Decay::constant;
  int64_t warmup_steps = 0;  // applies to both kinds
  double final_ratio = 0.0;  // cosine: the multiplier of the last step
};

// The multiplier of the learning rate at `step` (from 0) of a run of `steps`:
//   warm-up    (step + 1) / warmup_steps while step < warmup_steps: 1 / warmup_steps at the first step, never 0, and 1
//              at the last one of the warm-up;
//   constant   1 from there on;
//   cosine     final_ratio + (1 - final_ratio) * (1 + cos(pi t)) / 2, where t goes from 0 at step warmup_steps to 1 at
//   the
//              last step, steps - 1, and stays 1 after it. Where the warm-up leaves one step or none, t is 0.
// REQUIRES: step >= 0, steps >= 0, warmup_steps >= 0.
double learning_rate_multiplier(const Schedule& schedule, int64_t step, int64_t steps);

}  // namespace reshard::optim
