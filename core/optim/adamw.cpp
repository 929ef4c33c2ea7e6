#include "optim/adamw.h"

#include <fmt/format.h>

#include <cmath>

#include "base/check.h"
#include "optim/adamw_kernels.h"
#include "optim/flush_subnormals.h"
#include "reshard/error.h"

namespace reshard::optim {
namespace {

void check_beta(const char* key, double value) {
  if (value >= 0 && value < 1) return;  // false for NaN
  throw Error(ErrorCode::config, fmt::format("{} is {}", key, value), "optimizer adamw",
              "give a number from 0 to below 1");
}

void check_positive(const char* key, double value) {
  if (value >= 0 && std::isfinite(value)) return;
  throw Error(ErrorCode::config, fmt::format("{} is {}", key, value), "optimizer adamw", "give a number of at least 0");
}

}  // namespace

AdamW::AdamW(const AdamWOptions& options, Instructions set) : options_{options}, set_{set} {
  check_beta("beta1", options.beta1);
  check_beta("beta2", options.beta2);
  check_positive("eps", options.eps);
  check_positive("weight_decay", options.weight_decay);
  RESHARD_CHECK(set <= best_instructions(), "a kernel must run on this processor");
}

void AdamW::update(const Fragment& fragment, const StepInfo& step) const {
  RESHARD_CHECK(fragment.state.size() == 2, "AdamW has two state tensors");
  RESHARD_CHECK(step.step >= 1, "the bias corrections are 0 before the first step");
  const double lr = step.lr * fragment.group.lr_scale;
  const double decay = fragment.group.weight_decay.value_or(options_.weight_decay);
  const double count = static_cast<double>(step.step);
  const auto single = [](double value) { return static_cast<float>(value); };
  const AdamWNumbers numbers{
      .gradient_scale = step.gradient_scale,
      .keep = single(1 - lr * decay),
      .gradient_to_mean = single(1 - options_.beta1),
      .beta2 = single(options_.beta2),
      .gradient_to_square = single(1 - options_.beta2),
      .step_size = single(lr / (1 - std::pow(options_.beta1, count))),
      .root_scale = single(1 / std::sqrt(1 - std::pow(options_.beta2, count))),
      .eps = single(options_.eps),
  };
  const FlushSubnormals flush;
  adamw_update({.values = fragment.values,
                .gradient = fragment.gradient,
                .mean = fragment.state[0],
                .square = fragment.state[1],
                .length = fragment.length},
               numbers, set_);
}

}  // namespace reshard::optim
