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

// Neighbours in pairs, bottom up, an odd one passing up; terms and sums in that dtype.
inline Floats tree_sum(std::vector<Floats> terms, Dtype dtype) {
  for (Floats& term : terms)
    for (float& value : term) value = rounded(dtype, value);
  while (terms.size() > 1) {
    std::vector<Floats> next;
    for (std::size_t i = 0; i + 1 < terms.size(); i += 2) {
      for (std::size_t e = 0; e < terms[i].size(); ++e) terms[i][e] = rounded(dtype, terms[i][e] + terms[i + 1][e]);
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
    for (UnitSums& unit : units_) unit.runs.resize(static_cast<std::size_t>(job_.train.microbatches));
    losses_.assign(static_cast<std::size_t>(job_.train.microbatches), std::vector<double>(static_cast<std::size_t>(plan.ranks)));
    begun_.assign(static_cast<std::size_t>(job_.train.microbatches), false);
    over_ = begun_;
    for (const schedule::HookCall& call : calls) follow(call);
    return finish();
  }

  Values values;

 private:
  struct Runs {
    int forwards = 0, backwards = 0, own = 0;  // own: backwards that are not made up
  };
  struct UnitSums {
    std::vector<Runs> runs;                    // by micro-batch
    std::vector<std::vector<Floats>> pending;  // by parameter and rank: as backward added them up, not reduced
    std::vector<std::vector<Floats>> held;     // the same of several micro-batches, in the dtype that is added in
    std::vector<std::vector<Floats>> reduced;  // by parameter and replica
  };

  UnitSums& sums(int unit) { return units_[static_cast<std::size_t>(unit)]; }
  Runs& runs(int unit) { return sums(unit).runs[static_cast<std::size_t>(micro_batch_)]; }
  bool exchanges_each() const { return plan_->replicas() > 1 && plan_->all_reduce == AllReduce::each; }
  static Dtype dtype_of(const std::string& text) { return text == "bf16" ? Dtype::bf16 : Dtype::fp32; }
  Dtype dtype(int unit) const { return plan_->units[static_cast<std::size_t>(unit)].dtype; }
  Dtype sum_dtype() const { return dtype_of(job_.precision.reduce_dtype); }

  // No micro-batch will run the unit's backward again.
  bool complete(const UnitSums& unit) const {
    for (std::size_t m = 0; m < begun_.size(); ++m) {
      if (!begun_[m]) return false;
      const bool done = unit.runs[m].forwards > 0 && unit.runs[m].forwards == unit.runs[m].backwards;
      if (m != static_cast<std::size_t>(micro_batch_) && !over_[m] && !done) return false;
    }
    return true;
  }

  void follow(const schedule::HookCall& call) {
    using schedule::Hook;
    switch (call.hook) {
      case Hook::begin_micro_batch:
        if (micro_batch_ >= 0) over_[static_cast<std::size_t>(micro_batch_)] = true;
        begun_[static_cast<std::size_t>(++micro_batch_)] = true;
        break;
      case Hook::enter_micro_batch:
        micro_batch_ = call.unit;
        begun_[static_cast<std::size_t>(micro_batch_)] = true;
        break;
      case Hook::before_forward: {
        if (open_backwards_ > 0) break;  // a recompute
        ++runs(call.unit).forwards;
        if (call.run == schedule::kMadeUp) break;
        std::vector<double>& losses = losses_[static_cast<std::size_t>(micro_batch_)];
        for (const Parameter& p : model_.spec({call.unit}).parameters)
          for (std::size_t r = 0; r < losses.size(); ++r)
            losses[r] += loss_term(rounded(dtype(call.unit), values.at(p.name)[0]), static_cast<int>(r));
        break;
      }
      case Hook::before_backward: ++open_backwards_; break;
      case Hook::after_backward: {
        --open_backwards_;
        if (model_.spec({call.unit}).trainable()) contribute(call.unit, call.run == schedule::kMadeUp ? -1 : runs(call.unit).own++);
        const bool over = ++runs(call.unit).backwards == runs(call.unit).forwards;
        if (over) settle(call.unit, complete(sums(call.unit)));
        break;
      }
      case Hook::update:
        for (int u = 0; u < model_.unit_count(); ++u) settle(u, true);
        break;
      default: break;
    }
  }

  // `run`: which of the unit's own in this micro-batch; -1: made up, so zeros.
  void contribute(int u, int run) {
    UnitSums& unit = sums(u);
    const UnitSpec& spec = model_.spec({u});
    if (unit.pending.empty())
      for (const Parameter& p : spec.parameters)
        unit.pending.emplace_back(static_cast<std::size_t>(plan_->ranks), Floats(values.at(p.name).size(), 0.0F));
    for (std::size_t p = 0; run >= 0 && p < spec.parameters.size(); ++p) {
      const Floats& v = values.at(spec.parameters[p].name);
      for (int r = 0; r < plan_->ranks; ++r)
        for (std::size_t i = 0; i < v.size(); ++i) {
          const float value = spec.needs_parameters_in_backward ? rounded(dtype(u), v[i]) : 1.0F;
          float& sum = unit.pending[p][static_cast<std::size_t>(r)][i];
          sum = rounded(dtype(u),
                        sum + contribution(value, step_, r, micro_batch_, run, static_cast<int64_t>(i)));
        }
    }
  }

  // After a micro-batch's last backward of the unit, or (last) when no other will come.
  void settle(int u, bool last) {
    UnitSums& unit = sums(u);
    const bool each = plan_->units[static_cast<std::size_t>(u)].decision.reduce == Reduce::each;
    const bool converts = dtype(u) != sum_dtype();
    const bool holds = converts && (plan_->shards == 1 ? !(each && exchanges_each()) : !each && begun_.size() > 1);
    if (holds) {
      hold(unit);
      if (last) reduce(unit, unit.held);
      return;
    }
    if (!each && !last) return;
    if (plan_->shards == 1 && !exchanges_each() && !last) return;  // the gradient is the shard: more is added into it
    reduce(unit, unit.pending);
  }

  void hold(UnitSums& unit) {
    const bool first = unit.held.empty();
    for (std::size_t p = 0; p < unit.pending.size(); ++p) {
      if (first) unit.held.emplace_back(unit.pending[p].size(), Floats(unit.pending[p][0].size(), 0.0F));
      for (std::size_t r = 0; r < unit.pending[p].size(); ++r)
        for (std::size_t i = 0; i < unit.pending[p][r].size(); ++i) {
          const float term = rounded(sum_dtype(), unit.pending[p][r][i]);
          unit.held[p][r][i] = first ? term : rounded(sum_dtype(), unit.held[p][r][i] + term);
        }
    }
    unit.pending.clear();
  }

  // The sum over each shard group, then over replicas where they exchange every time.
  void reduce(UnitSums& unit, std::vector<std::vector<Floats>>& terms) {
    const bool first = unit.reduced.empty();
    for (std::size_t p = 0; p < terms.size(); ++p) {
      std::vector<Floats> groups;
      const auto ranks = terms[p].begin();
      for (int begin = 0; begin < plan_->ranks; begin += plan_->shards)
        groups.push_back(tree_sum({ranks + begin, ranks + begin + plan_->shards}, sum_dtype()));
      if (exchanges_each()) groups = {tree_sum(groups, sum_dtype())};
      if (first) {
        unit.reduced.push_back(std::move(groups));
        continue;
      }
      for (std::size_t g = 0; g < groups.size(); ++g)
        for (std::size_t i = 0; i < groups[g].size(); ++i)
          unit.reduced[p][g][i] = rounded(sum_dtype(), unit.reduced[p][g][i] + groups[g][i]);
    }
    terms.clear();
  }

  StepNumbers finish() {
    const double runs =
        job_.train.divisor == "none" ? 1.0 : static_cast<double>(plan_->ranks) * job_.train.microbatches;
    const auto scale = static_cast<float>(1.0 / runs);
    optim::NormSum squares;
    for_each_reduced([&](const Parameter&, std::vector<Floats>& sum) {
      sum = {tree_sum(sum, sum_dtype())};
      if (scale != 1.0F)
        for (float& g : sum[0]) g = rounded(sum_dtype(), g * scale);
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
  double loss() const {
    double sum = 0;
    for (std::size_t r = 0; r < static_cast<std::size_t>(plan_->ranks); ++r) {
      double of_rank = 0;
      for (const std::vector<double>& of_micro_batch : losses_) of_rank += of_micro_batch[r];
      sum += of_rank;
    }
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
  std::vector<std::vector<double>> losses_;  // by micro-batch and rank
  std::vector<bool> begun_, over_;           // by micro-batch
};

}  // namespace reshard::toy
