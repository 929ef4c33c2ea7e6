#pragma once

// The optimizer as an interface: it names its state tensors, then updates fragments of parameters. AdamW and SGD
// (core/optim) are two implementations; a program can hand over its own, whose state is counted, saved and laid out
// anew like theirs.
//
// Every rank holds fp32 values, gradients and state for its shard only, and a parameter may be cut at any multiple of
// 64 elements. So the runtime calls update() once per fragment, in any order. An optimizer is *element-wise* when
// element i's new value depends on element i's value, gradient and state and on the step's numbers alone: it then gives
// identical bits under every strategy and every shard count, which is what the reports promise. AdamW and SGD are
// element-wise. An optimizer that looks at more of a tensor needs a parameter that is not cut; Fragment says which part
// it sees.
//
// Threads: every Runtime owns its optimizer, but a program may let them share state of its own, so update() is const.
// At most 8 state tensors. What changes from step to step belongs in the state tensors: only they
// are saved.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace reshard {

// What the parameter's group has of its own: the runtime fills it from Parameter::lr_scale and Parameter::decay (model.h)
// and from the job's [[optimizer.group]].
struct ParameterGroup {
  double lr_scale = 1.0;               // the group's learning rate = this times the step's
  std::optional<double> weight_decay;  // absent: the optimizer's own; 0: not decayed
};

// The numbers of one step, equal on all ranks.
struct StepInfo {
  int64_t step = 1;             // counts from 1: the number of the update, for bias corrections
  double lr = 0.0;              // the job's rate times the schedule's multiplier, before lr_scale
  float gradient_scale = 1.0F;  // the clip factor; update() multiplies each gradient by it first (1 = not clipped)
};

// A run of consecutive elements of one parameter that this rank holds. The memory belongs to the runtime and is valid
// during the call. Pointers are aligned to 4 bytes at least, to 64 where the fragment begins at a multiple of 64; they
// do not overlap.
struct Fragment {
  int parameter = 0;                 // index in the model
  std::string_view name{};           // the parameter's name
  std::span<const int64_t> shape{};  // the whole parameter's shape
  ParameterGroup group{};
  int64_t offset = 0;               // of the first element within the parameter, in elements
  int64_t length = 0;               // elements; 0 is legal
  float* values = nullptr;          // read and written
  const float* gradient = nullptr;  // summed over ranks and micro-batches ÷ [train] divisor, before gradient_scale
  std::span<float* const> state{};  // one pointer per state name, in that order; read and written
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // "adamw": the name in reports and checkpoints.
  virtual std::string name() const = 0;

  // One name per state tensor, constant over the object's life. Each tensor is fp32 and as long as the parameter, and
  // starts at zero. A checkpoint stores it as PARAMETER + "." + name, so a name is a word without dots, each another:
  // "exp_avg".
  virtual std::vector<std::string> state_names() const = 0;

  // Updates values and state in place. Allocates nothing and does not throw for lengths, steps or gradients of any
  // value (a NaN gradient gives NaN values: the runtime looks at the gradient norm before it updates). REQUIRES:
  // fragment.state.size() == state_names().size(), step.step >= 1.
  virtual void update(const Fragment& fragment, const StepInfo& step) const = 0;
};

}  // namespace reshard
