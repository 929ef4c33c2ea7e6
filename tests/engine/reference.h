#pragma once

// The toy's training (toy.h) in one process without the runtime, in the order of adding that the decisions imply: what
// the runtime leaves must be the same bits. It follows the program's own hooks, whatever their order, and knows of a
// plan only where it reduces and over which ranks.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "optim/adamw.h"
#include "optim/clip.h"
#include "strategy/plan.h"
#include "tests/engine/toy.h"
#include "tests/schedule/random_program.h"

namespace reshard::toy {

using Floats = std::vector<float>;

// Neighbours in pairs, bottom up, an odd one passing up.
inline Floats tree_sum(std::vector<Floats> terms) {
  while (terms.size() > 1) {
    std::vector<Floats> next;
    for (std::size_t i = 0; i + 1 < terms.size(); i += 2) {
      for (std::size_t e = 0; e < terms[i].size(); ++e) terms[i][e] += terms[i + 1][e];
      next.push_back(std::move(terms[i]));
    }
    if (terms.size() % 2 == 1) next.push_back(std::move(terms.back()));
    terms = std::move(next);
  }
  return terms.front();
}

class Reference {
 public:
  Reference(const Job& job, const Model& model)
      : job_(job),
        model_(model),
        adamw_({.beta1 = job.optimizer.betas[0],
                .beta2 = job.optimizer.betas[1],
                .eps = job.optimizer.eps,
                .weight_decay = job.optimizer.weight_decay}) {
    for (const UnitSpec& unit : model.units())
      for (const Parameter& p : unit.parameters) {
        Floats& v = values[p.name];
        for (int64_t i = 0; i < p.elements(); ++i) v.push_back(initial(p.name, i));
        first_[p.name].resize(v.size());
        second_[p.name].resize(v.size());
      }
  }

  struct StepNumbers {
    double norm = 0, loss = 0;
  };

  // One step's hooks, under `plan`.
  StepNumbers step(int64_t step, const Plan& plan, const schedule::HookCalls& calls) {
    plan_ = &plan;
    step_ = step;
    micro_batch_ = -1;
    units_.assign(static_cast<std::size_t>(model_.unit_count()), {});
    losses_.assign(static_cast<std::size_t>(plan.ranks), 0.0);
    for (const schedule::HookCall& call : calls) follow(call);
    return finish();
  }

  Values values;

 private:
  struct UnitSums {
    int forwards = 0, backwards = 0;           // runs of this micro-batch
    std::vector<std::vector<Floats>> pending;  // by parameter and rank: added up, not reduced
    std::vector<std::vector<Floats>> reduced;  // by parameter and replica
  };

  UnitSums& sums(int unit) { return units_[static_cast<std::size_t>(unit)]; }
  bool exchanges_each() const { return plan_->replicas() > 1 && plan_->all_reduce == AllReduce::each; }

  void follow(const schedule::HookCall& call) {
    using schedule::Hook;
    const bool last = micro_batch_ + 1 == job_.train.microbatches;
    switch (call.hook) {
      case Hook::begin_micro_batch:
        ++micro_batch_;
        for (UnitSums& unit : units_) unit.forwards = unit.backwards = 0;
        for (double& loss : losses_) loss_sums_.push_back(std::exchange(loss, 0.0));
        break;
      case Hook::before_forward:
        if (open_backwards_ > 0) break;  // a recompute
        ++sums(call.unit).forwards;
        for (const Parameter& p : model_.spec({call.unit}).parameters)
          for (std::size_t r = 0; r < losses_.size(); ++r)
            losses_[r] += loss_term(values.at(p.name)[0], static_cast<int>(r));
        break;
      case Hook::before_backward: ++open_backwards_; break;
      case Hook::after_backward: {
        --open_backwards_;
        UnitSums& unit = sums(call.unit);
        if (model_.spec({call.unit}).trainable()) contribute(call.unit, unit.backwards);
        const Reduce when = plan_->units[static_cast<std::size_t>(call.unit)].decision.reduce;
        if (++unit.backwards == unit.forwards && (when == Reduce::each || last)) reduce(unit, last);
        break;
      }
      case Hook::update:
        for (UnitSums& unit : units_) reduce(unit, true);
        break;
      default: break;
    }
  }

  void contribute(int u, int run) {
    UnitSums& unit = sums(u);
    const std::vector<Parameter>& parameters = model_.spec({u}).parameters;
    if (unit.pending.empty())
      for (const Parameter& p : parameters)
        unit.pending.emplace_back(static_cast<std::size_t>(plan_->ranks), Floats(values.at(p.name).size(), 0.0F));
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      const Floats& v = values.at(parameters[p].name);
      for (int r = 0; r < plan_->ranks; ++r)
        for (std::size_t i = 0; i < v.size(); ++i)
          unit.pending[p][static_cast<std::size_t>(r)][i] +=
              contribution(v[i], step_, r, micro_batch_, run, static_cast<int64_t>(i));
    }
  }

  // The sum over each shard group, then over replicas where they exchange every time.
  void reduce(UnitSums& unit, bool last) {
    if (unit.pending.empty()) return;
    if (plan_->shards == 1 && !exchanges_each() && !last) return;  // the gradient is the shard: more is added into it
    const bool first = unit.reduced.empty();
    for (std::size_t p = 0; p < unit.pending.size(); ++p) {
      std::vector<Floats> groups;
      const auto ranks = unit.pending[p].begin();
      for (int begin = 0; begin < plan_->ranks; begin += plan_->shards)
        groups.push_back(tree_sum({ranks + begin, ranks + begin + plan_->shards}));
      if (exchanges_each()) groups = {tree_sum(groups)};
      if (first) {
        unit.reduced.push_back(std::move(groups));
        continue;
      }
      for (std::size_t g = 0; g < groups.size(); ++g)
        for (std::size_t i = 0; i < groups[g].size(); ++i) unit.reduced[p][g][i] += groups[g][i];
    }
    unit.pending.clear();
  }

  StepNumbers finish() {
    const double runs = static_cast<double>(plan_->ranks) * job_.train.microbatches;
    const auto scale = static_cast<float>(1.0 / runs);
    optim::NormSum squares;
    for_each_reduced([&](const Parameter&, std::vector<Floats>& sum) {
      sum = {tree_sum(sum)};
      if (scale != 1.0F)
        for (float& g : sum[0]) g *= scale;
      squares.add(sum[0]);
    });
    StepNumbers numbers{squares.norm(), loss() / runs};
    const StepInfo info{step_ + 1, job_.optimizer.lr, optim::clip_factor(numbers.norm, job_.optimizer.clip_norm)};
    for_each_reduced([&](const Parameter& p, std::vector<Floats>& sum) {
      float* states[] = {first_[p.name].data(), second_[p.name].data()};
      Fragment fragment;
      fragment.name = p.name;
      fragment.group.lr_scale = p.lr_scale;
      if (!p.decay) fragment.group.weight_decay = 0.0;
      fragment.length = p.elements();
      fragment.values = values[p.name].data();
      fragment.gradient = sum[0].data();
      fragment.state = states;
      adamw_.update(fragment, info);
    });
    return numbers;
  }

  // The trainable parameters of the units whose backward came.
  template <typename Fn>
  void for_each_reduced(const Fn& fn) {
    for (int u = 0; u < model_.unit_count(); ++u)
      for (std::size_t p = 0; p < sums(u).reduced.size(); ++p)
        if (const Parameter& parameter = model_.spec({u}).parameters[p]; parameter.trainable)
          fn(parameter, sums(u).reduced[p]);
  }

  // Each rank's micro-batches in order, then the ranks in order.
  double loss() {
    for (const double loss : losses_) loss_sums_.push_back(loss);
    const std::size_t ranks = losses_.size();
    double sum = 0;
    for (std::size_t r = 0; r < ranks; ++r) {
      double of_rank = 0;
      for (std::size_t at = ranks + r; at < loss_sums_.size(); at += ranks) of_rank += loss_sums_[at];
      sum += of_rank;
    }
    loss_sums_.clear();
    return sum;
  }

  const Job& job_;
  const Model& model_;
  const Plan* plan_ = nullptr;
  optim::AdamW adamw_;
  Values first_, second_;
  int64_t step_ = 0;
  int micro_batch_ = -1, open_backwards_ = 0;
  std::vector<UnitSums> units_;
  std::vector<double> losses_;     // of this micro-batch, by rank
  std::vector<double> loss_sums_;  // of the finished ones: micro-batch by micro-batch, each by rank; zeros first
};

}  // namespace reshard::toy
