#pragma once

// SGD with torch.optim.SGD's meaning: with momentum or without, and weight decay added to the gradient (*not*
// decoupled as in AdamW; without momentum the two are the same). One pass: 12 bytes per parameter, 20 with momentum.
// Element-wise, hence identical bits under every sharding; thread rules as in reshard/optimizer.h. Numbers below fp32's
// normal range count as zero (flush_subnormals.h says why).
//
// Per element, all in fp32, each operation rounded once, with c() = a double rounded to fp32:
//     g = gradient * gradient_scale + c(weight_decay) * p
//     b = c(momentum) * b + g                                  momentum_buffer; without momentum b is g
//     p = p - c(lr) * b

#include "optim/instructions.h"
#include "reshard/optimizer.h"

namespace reshard::optim {

struct SgdOptions {
  double momentum = 0.0;      // 0: no state at all
  double weight_decay = 0.0;  // of groups that name none
};

class Sgd final : public Optimizer {
 public:
  // Throws Error(config) for a momentum outside [0, 1) or a weight decay below 0 or not finite.
  // REQUIRES: `set` is one of supported_instructions().
  explicit Sgd(const SgdOptions& options, Instructions set = best_instructions());

  std::string name() const override { return "sgd"; }
  std::vector<std::string> state_names() const override;
  void update(const Fragment& fragment, const StepInfo& step) const override;

 private:
  SgdOptions options_;
  Instructions set_;
};

}  // namespace reshard::optim
