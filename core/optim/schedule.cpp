#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace reshard::optim {

double learning_rate_multiplier(const Schedule& schedule, int64_t step, int64_t steps) {
  RESHARD_CHECK(step >= 0 && steps >= 0 && schedule.warmup_steps >= 0, "steps are counts");
  if (step < schedule.warmup_steps) return static_cast<double>(step + 1) / static_cast<double>(schedule.warmup_steps);
  if (schedule.decay == Decay::constant) return 1.0;
  const int64_t places = steps - 1 - schedule.warmup_steps;  // from the peak to the last step
  if (places <= 0) return 1.0;
  const double t = std::min(1.0, static_cast<double>(step - schedule.warmup_steps) / static_cast<double>(places));
  if (t == 1.0) return schedule.final_ratio;  // exactly, whatever cos(pi) rounds to
  return schedule.final_ratio + (1 - schedule.final_ratio) * (1 + std::cos(std::numbers::pi * t)) / 2;
}

}  // namespace reshard::optim
