#pragma once

// torch::optim::Adam on a rank's shards: an Adam of one step over tensors that lie on the runtime's memory. So its two
// moments are counted, and laid out anew, like the runtime's own. Shared by nothing; any thread.

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <torch/optim/adam.h>

#include "reshard/optimizer.h"

namespace sharded {

class Adam : public reshard::Optimizer {
 public:
  explicit Adam(torch::optim::AdamOptions options) : options_(options) {}

  std::string name() const override { return "torch_adam"; }
  std::vector<std::string> state_names() const override { return {"exp_avg", "exp_avg_sq"}; }

  void update(const reshard::Fragment& fragment, const reshard::StepInfo& step) const override {
    if (fragment.length == 0) return;
    const auto on = [&](const float* memory) {  // torch has no read-only tensors
      return torch::from_blob(const_cast<float*>(memory), {fragment.length});
    };
    torch::Tensor values = on(fragment.values), gradient = on(fragment.gradient);
    values.mutable_grad() = step.gradient_scale == 1.0F ? gradient : gradient * step.gradient_scale;

    torch::optim::AdamOptions options = options_;
    options.lr(step.lr * fragment.group.lr_scale);
    options.weight_decay(fragment.group.weight_decay.value_or(options_.weight_decay()));
    torch::optim::Adam adam(std::vector<torch::Tensor>{values}, options);
    auto state = std::make_unique<torch::optim::AdamParamState>();
    state->step(step.step - 1);
    state->exp_avg(on(fragment.state[0]));
    state->exp_avg_sq(on(fragment.state[1]));
    adam.state()[c10::guts::to_string(values.unsafeGetTensorImpl())] = std::move(state);
    adam.step();
  }

 private:
  torch::optim::AdamOptions options_;
};

}  // namespace sharded
