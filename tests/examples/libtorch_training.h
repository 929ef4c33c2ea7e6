#pragma once

// The same training of examples/libtorch's net twice: on Reshard's shards, and by LibTorch alone in one process. Every
// rank's thread calls what takes a Runtime; the rest is for the test's thread.

#include <map>
#include <memory>
#include <mutex>
#include <ostream>
#include <string>
#include <vector>

#include <ATen/Parallel.h>

#include "adam.h"
#include "reverser.h"
#include "tests/engine/ways.h"
#include "tests/shipped.h"
#include "units.h"

namespace reshard {

using torch::Tensor;
using Gradients = std::map<std::string, Tensor>;

constexpr ReverserOptions kSmall{.length = 5, .width = 16, .layers = 3, .heads = 2};
constexpr int64_t kRows = 24;  // of a step, over all ranks and micro-batches

struct Case {
  std::string strategy;
  int ranks = 1, microbatches = 1;
  bool frozen = false;  // the first block and the places
};
inline void PrintTo(const Case& one, std::ostream* out) {
  *out << one.strategy << " ranks " << one.ranks << " micro-batches " << one.microbatches
       << (one.frozen ? " frozen" : "");
}

inline Job job_of(const Case& one) {
  Job job;
  job.strategy.plugin = tests::shipped(one.strategy);
  job.mesh.ranks = one.ranks;
  job.mesh.ranks_per_node = (one.ranks + 1) / 2;
  job.mesh.timeout = 20;
  job.train.microbatches = one.microbatches;
  job.optimizer.name = "program";
  job.optimizer.lr = 1e-2;
  return job;
}

inline Reverser make_net(bool frozen = false) {
  static std::mutex one_by_one;  // the generator is one for all threads
  const std::lock_guard lock(one_by_one);
  torch::manual_seed(7);
  Reverser net(kSmall);
  if (frozen) {
    net->places.set_requires_grad(false);
    for (Tensor& parameter : net->named_children()["blocks"]->named_children()["0"]->parameters())
      parameter.set_requires_grad(false);
  }
  return net;
}

// The rows of one micro-batch of one rank; without ranks and micro-batches, of the whole step.
inline Tensor rows_of(int64_t step, int64_t part = 0, int64_t parts = 1) {
  const int64_t length = kRows / parts;
  return rows_of_digits(100 + step, kRows, kSmall.length).narrow(0, part * length, length);
}

inline torch::optim::AdamOptions adam_options() {
  return torch::optim::AdamOptions(1e-2).betas({0.9, 0.95}).weight_decay(0.01);
}

// Notes the gradients it is given, of all ranks, and trains with Adam.
class Noting : public sharded::Adam {
 public:
  explicit Noting(Gradients& gradients) : Adam(adam_options()), gradients_(gradients) {}
  void update(const Fragment& fragment, const StepInfo& step) const override {
    {
      const std::lock_guard lock(mutex());
      Tensor& whole = gradients_[std::string(fragment.name)];
      if (!whole.defined()) whole = torch::full(at::IntArrayRef(fragment.shape.data(), fragment.shape.size()), NAN);
      std::copy_n(fragment.gradient, fragment.length, whole.data_ptr<float>() + fragment.offset);
    }
    Adam::update(fragment, step);
  }

 private:
  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }
  Gradients& gradients_;
};

struct Training {
  std::vector<double> losses;
  Gradients gradients;  // of the last step
  std::map<std::string, std::vector<float>> parameters;
  Report report;  // of the first rank
};

inline double step_of(Runtime& runtime, sharded::Units& units, Reverser& net, int64_t step) {
  const int ranks = runtime.rank().count(), microbatches = runtime.job().train.microbatches;
  double loss_sum = 0;
  runtime.begin_step();
  for (int m = 0; m < microbatches; ++m) {
    runtime.begin_micro_batch();
    const Tensor rows = rows_of(step, m * ranks + runtime.rank().index(), int64_t{ranks} * microbatches);
    const Tensor loss = units.forward([&] { return reversal_loss(net, rows); });
    units.backward(loss);
    loss_sum += loss.item<double>();
  }
  runtime.reduce();
  runtime.update(runtime.gradient_norm());
  return runtime.end_step(loss_sum).loss;
}

inline Training run_sharded(const Case& one, int64_t steps) {
  const Job job = toy::with_budget(job_of(one), sharded::declare(*make_net(one.frozen), "blocks"), 2);
  Training run;
  launch(job, [&](Rank& rank) {
    at::set_num_threads(1);
    Reverser net = make_net(one.frozen);
    Runtime runtime(job, sharded::declare(*net, "blocks"), rank, std::make_unique<Noting>(run.gradients));
    sharded::Units units(*net, "blocks", runtime);
    for (int64_t s = 0; s < steps; ++s) {
      const double loss = step_of(runtime, units, net, s);
      if (rank.first()) run.losses.push_back(loss);
    }
    if (rank.first()) run.report = runtime.report();
    for (const UnitSpec& unit : runtime.model().units())
      for (const Parameter& parameter : unit.parameters) {
        std::vector<float> values = runtime.read(parameter.name);
        if (rank.first()) run.parameters[parameter.name] = std::move(values);
      }
  });
  return run;
}

// The same without Reshard: one process, the parts of the batch one after the other.
inline Training run_plain(int64_t steps, int64_t parts, bool frozen) {
  at::set_num_threads(1);
  Reverser net = make_net(frozen);
  torch::optim::Adam adam(net->parameters(), adam_options());
  Training run;
  for (int64_t s = 0; s < steps; ++s) {
    adam.zero_grad();
    double loss_sum = 0;
    for (int64_t part = 0; part < parts; ++part) {
      const Tensor loss = reversal_loss(net, rows_of(s, part, parts));
      (loss / parts).backward();
      loss_sum += loss.item<double>();
    }
    adam.step();
    run.losses.push_back(loss_sum / static_cast<double>(parts));
  }
  for (const auto& [name, parameter] : net->named_parameters().pairs()) {
    if (parameter.requires_grad()) run.gradients[name] = parameter.grad();
    run.parameters[name] = {parameter.data_ptr<float>(), parameter.data_ptr<float>() + parameter.numel()};
  }
  return run;
}

inline double largest(const Tensor& tensor) {
  return tensor.abs().max().item<double>();
}

}  // namespace reshard
