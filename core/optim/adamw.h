#pragma once

// AdamW with torch.optim.AdamW's meaning (decoupled decay, bias corrections in double), fused into one pass over
// memory: 28 bytes per parameter (values, gradient and two states read; values and states written).
// Element-wise, hence identical bits under every sharding; thread rules as in reshard/optimizer.h. Numbers below fp32's
// normal range count as zero (flush_subnormals.h says why).
//
// Per element, all in fp32, each operation rounded once (no fused multiply-add), with c() = a double rounded to fp32:
//     g  = gradient * gradient_scale
//     p  = p * c(1 - lr * weight_decay)
//     m  = m + c(1 - beta1) * (g - m)                         exp_avg
//     v  = v * c(beta2) + (g * c(1 - beta2)) * g               exp_avg_sq
//     p  = p - c(lr / (1 - beta1^step)) * (m / (sqrt(v) * c(1 / sqrt(1 - beta2^step)) + c(eps)))

#include "optim/instructions.h"
#include "reshard/optimizer.h"

namespace reshard::optim {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;  // of groups that name none
};

class AdamW final : public Optimizer {
 public:
  // Throws Error(config) for a beta outside [0, 1), an eps or weight decay below 0, or one that is not finite.
  // REQUIRES: `set` is one of supported_instructions().
  explicit AdamW(const AdamWOptions& options, Instructions set = best_instructions());

  std::string name() const override { return "adamw"; }
  std::vector<std::string> state_names() const override { return {"exp_avg", "exp_avg_sq"}; }
  void update(const Fragment& fragment, const StepInfo& step) const override;

 private:
  AdamWOptions options_;
  Instructions set_;
};

}  // namespace reshard::optim
