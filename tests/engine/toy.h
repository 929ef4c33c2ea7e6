#pragma once

// A program for tests, whose kernels are one line of arithmetic. reference.h computes the same without the runtime.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "reshard/job.h"
#include "reshard/model.h"
#include "reshard/runtime.h"
#include "tests/shipped.h"

namespace reshard::toy {

using Values = std::map<std::string, std::vector<float>>;  // whole parameters by name

inline std::string plugin(const std::string& name) {
  return tests::shipped(name);
}

inline Job job(int ranks, const std::string& strategy, int microbatches = 1, bool overlap = false) {
  Job job;
  job.strategy.plugin = plugin(strategy);
  job.mesh.ranks = ranks;
  job.mesh.ranks_per_node = ranks % 2 == 0 ? ranks / 2 : 1;  // two nodes, where it goes
  job.mesh.overlap = overlap;
  job.mesh.timeout = 20;
  job.train.microbatches = microbatches;
  job.train.steps = 10;
  job.optimizer.lr = 1e-2;
  job.optimizer.weight_decay = 0.1;
  job.optimizer.clip_norm = 1.0;
  return job;
}

inline Model two_units() {
  Model model({.name = "root", .parameters = {{"a", {10}}}});
  model.add({.name = "h.0", .parameters = {{"b", {70}}}});
  return model;
}

inline float initial(const std::string& name, int64_t i) {
  return 0.25F +
         0.001F * static_cast<float>((static_cast<int64_t>(std::hash<std::string>{}(name) % 97) + i * 13) % 101);
}

// What one run of a unit's backward adds to a gradient: depends on the whole parameter, hence on every gather.
inline float contribution(float value, int64_t step, int rank, int micro_batch, int run, int64_t i) {
  const int64_t mixed = (step * 31 + rank * 17 + micro_batch * 7 + run * 3 + i) % 89;
  return value * 0.37F + 0.0123F * static_cast<float>(mixed) - 0.5F;
}

// A value as a unit of that dtype holds it.
inline float rounded(Dtype dtype, float value) {
  return dtype == Dtype::bf16 ? static_cast<float>(Bf16(value)) : value;
}

// The parameter as backward sees it: a unit that does without has ones.
inline std::vector<float> seen(const View& view, int parameter) {
  if (view.dtype() == Dtype::bf16) {
    const auto values = view.parameter_bf16(parameter);
    std::vector<float> wide;
    for (const Bf16 value : values) wide.push_back(static_cast<float>(value));
    return wide;
  }
  const auto values = view.parameter(parameter);
  return {values.begin(), values.end()};
}

// gradient[i] += term(value[i], i), in the unit's dtype.
template <typename Term>
void add_contribution(const View& view, int parameter, const Term& term, bool reads = true) {
  const std::vector<float> values = reads ? seen(view, parameter) : std::vector<float>{};
  const auto add = [&](auto gradient) {
    using Value = typename decltype(gradient)::value_type;
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      const float grown =
          static_cast<float>(gradient[i]) + term(reads ? values[i] : 1.0F, static_cast<int64_t>(i));
      gradient[i] = static_cast<Value>(grown);
    }
  };
  if (view.dtype() == Dtype::bf16)
    add(view.gradient_bf16(parameter));
  else
    add(view.gradient(parameter));
}

// What one run of a unit's forward adds to its rank's loss, per parameter.
inline double loss_term(float first_value, int rank) {
  return static_cast<double>(first_value) * (1 + rank);
}

inline void fill(Runtime& runtime) {
  runtime.fill([](std::string_view name, int64_t offset, std::span<float> values) {
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = initial(std::string(name), offset + static_cast<int64_t>(i));
  });
}

// Runs the declared forward and backward of one micro-batch through the hooks. `place` is called around and inside of
// each: at four places per use of a unit. `bare`: before_forward and after_forward, not forward(unit, …).
class Pass {
 public:
  using Place = std::function<void()>;

  Pass(Runtime& runtime, MicroBatch at, Place place = {}, bool bare = false)
      : runtime_(runtime),
        at_(at),
        place_(std::move(place)),
        bare_(bare),
        runs_(static_cast<std::size_t>(runtime.model().unit_count())) {}

  double operator()() {
    forward(0);
    backward(0);
    return loss_;
  }

  void forward(int unit) {
    const Model& model = runtime_.model();
    for (int run = 0; run < model.spec({unit}).repeats; ++run)
      use(unit, true, [&](const View& view) {
        for (std::size_t p = 0; p < model.spec({unit}).parameters.size(); ++p)
          loss_ += loss_term(seen(view, static_cast<int>(p))[0], runtime_.rank().index());
        for (int child = 1; child < model.unit_count(); ++child)
          if (model.parent({child}).index == unit) forward(child);
      });
  }

  void backward(int unit) {
    const Model& model = runtime_.model();
    for (int run = 0; run < model.spec({unit}).repeats; ++run)
      use(unit, false, [&](const View& view) {
        for (int child = model.unit_count() - 1; child > 0; --child)
          if (model.parent({child}).index == unit) backward(child);
        contribute(unit, view);
      });
  }

 private:
  template <typename Fn>
  void use(int unit, bool forward, const Fn& fn) {
    const auto inside = [&](const View& view) {
      place();
      fn(view);
      place();
    };
    place();
    if (bare_) {
      inside(forward ? runtime_.before_forward({unit}) : runtime_.before_backward({unit}));
      forward ? runtime_.after_forward({unit}) : runtime_.after_backward({unit});
    } else {
      forward ? runtime_.forward({unit}, inside) : runtime_.backward({unit}, inside);
    }
    place();
  }

  void contribute(int unit, const View& view) {
    const UnitSpec& spec = runtime_.model().spec({unit});
    const int nth = runs_[static_cast<std::size_t>(unit)]++;
    for (std::size_t p = 0; p < spec.parameters.size(); ++p) {
      if (!spec.parameters[p].trainable) continue;
      add_contribution(
          view, static_cast<int>(p),
          [&](float value, int64_t i) {
            return contribution(value, at_.step, runtime_.rank().index(), at_.index, nth, i);
          },
          spec.needs_parameters_in_backward);
    }
  }

  void place() const {
    if (place_) place_();
  }

  Runtime& runtime_;
  MicroBatch at_;
  Place place_;
  bool bare_;
  std::vector<int> runs_;
  double loss_ = 0;
};

inline Values read_all(Runtime& runtime) {
  Values values;
  for (const UnitSpec& unit : runtime.model().units())
    for (const Parameter& p : unit.parameters) values[p.name] = runtime.read(p.name);
  return values;
}

}  // namespace reshard::toy
