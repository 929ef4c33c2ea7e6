#pragma once

// A program for tests: units in a random tree, kernels that are one line of arithmetic, and the same training run in
// one process without the runtime, in the order of adding that the decisions imply. What the two leave must be the same
// bits.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "optim/adamw.h"
#include "optim/clip.h"
#include "reshard/job.h"
#include "reshard/model.h"
#include "reshard/runtime.h"
#include "strategy/plan.h"

namespace reshard::toy {

using Values = std::map<std::string, std::vector<float>>;  // whole parameters by name

inline std::string plugin(const std::string& name) {
  return std::string(RESHARD_BINARY_DIR) + "/plugins/" + name + ".so";
}

inline Job job(int ranks, const std::string& strategy, int microbatches = 1, bool overlap = false) {
  Job job;
  job.strategy.plugin = plugin(strategy);
  job.mesh.ranks = ranks;
  job.mesh.overlap = overlap;
  job.mesh.timeout = 20;
  job.train.microbatches = microbatches;
  job.train.steps = 10;
  job.optimizer.lr = 1e-2;
  job.optimizer.weight_decay = 0.1;
  job.optimizer.clip_norm = 1.0;
  return job;
}

// 1 to `most` units with 0 to 3 parameters of 1 to about 300 elements; the tree's shape is random too.
inline Model random_model(std::mt19937_64& random, int most) {
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  const int sizes[] = {1, 2, 3, 7, 63, 64, 65, 127, 128, 129, 191, 257, 300};
  int made = 0;
  const auto spec = [&](const std::string& name, bool may_be_empty) {
    UnitSpec unit{.name = name};
    for (int p = pick(may_be_empty ? 0 : 1, 3); p > 0; --p)
      unit.parameters.push_back({"p" + std::to_string(made++), {sizes[pick(0, 12)]}, pick(0, 1) == 1, 1.0});
    return unit;
  };
  Model model(spec("root", true));
  for (int u = pick(0, most - 1); u > 0; --u) {
    UnitSpec unit = spec("u" + std::to_string(model.unit_count()), false);
    if (pick(0, 5) == 0) unit.repeats = 2;
    const int parent = pick(0, 3) == 0 ? pick(0, model.unit_count() - 1) : 0;
    model.add(std::move(unit), {parent});
  }
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

inline void fill(Runtime& runtime) {
  runtime.fill([](std::string_view name, int64_t offset, std::span<float> values) {
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = initial(std::string(name), offset + static_cast<int64_t>(i));
  });
}

// Runs the declared forward and backward of one micro-batch through the hooks.
class Pass {
 public:
  Pass(Runtime& runtime, MicroBatch at)
      : runtime_(runtime), at_(at), runs_(static_cast<std::size_t>(runtime.model().unit_count())) {}

  double operator()() {
    forward(0);
    backward(0);
    return loss_;
  }

  void forward(int unit) {
    for (int run = 0; run < runtime_.model().spec({unit}).repeats; ++run)
      runtime_.forward({unit}, [&](const View& view) {
        const auto& parameters = runtime_.model().spec({unit}).parameters;
        for (std::size_t p = 0; p < parameters.size(); ++p) loss_ += view.parameter(static_cast<int>(p))[0];
        for (int child = 1; child < runtime_.model().unit_count(); ++child)
          if (runtime_.model().parent({child}).index == unit) forward(child);
      });
  }

  void backward(int unit) {
    const Model& model = runtime_.model();
    for (int run = 0; run < model.spec({unit}).repeats; ++run)
      runtime_.backward({unit}, [&](const View& view) {
        for (int child = model.unit_count() - 1; child > 0; --child)
          if (model.parent({child}).index == unit) backward(child);
        const int nth = runs_[static_cast<std::size_t>(unit)]++;
        for (std::size_t p = 0; p < model.spec({unit}).parameters.size(); ++p) {
          const auto values = view.parameter(static_cast<int>(p));
          const auto gradient = view.gradient(static_cast<int>(p));
          for (std::size_t i = 0; i < values.size(); ++i)
            gradient[i] +=
                contribution(values[i], at_.step, runtime_.rank().index(), at_.index, nth, static_cast<int64_t>(i));
        }
      });
  }

 private:
  Runtime& runtime_;
  MicroBatch at_;
  std::vector<int> runs_;
  double loss_ = 0;
};

inline Values read_all(Runtime& runtime) {
  Values values;
  for (const UnitSpec& unit : runtime.model().units())
    for (const Parameter& p : unit.parameters) values[p.name] = runtime.read(p.name);
  return values;
}

// Neighbours in pairs, bottom up, an odd one passing up.
inline std::vector<float> tree_sum(std::vector<std::vector<float>> terms) {
  while (terms.size() > 1) {
    std::vector<std::vector<float>> next;
    for (std::size_t i = 0; i + 1 < terms.size(); i += 2) {
      for (std::size_t e = 0; e < terms[i].size(); ++e) terms[i][e] += terms[i + 1][e];
      next.push_back(std::move(terms[i]));
    }
    if (terms.size() % 2 == 1) next.push_back(std::move(terms.back()));
    terms = std::move(next);
  }
  return terms.front();
}

// The same run in one process.
class Reference {
 public:
  Reference(const Job& job, const Model& model, const Plan& plan)
      : job_(job),
        model_(model),
        plan_(plan),
        adamw_({.beta1 = job.optimizer.betas[0],
                .beta2 = job.optimizer.betas[1],
                .eps = job.optimizer.eps,
                .weight_decay = job.optimizer.weight_decay}) {
    runs_.resize(static_cast<std::size_t>(model.unit_count()), 0);
    count_runs(0);
    for (const UnitSpec& unit : model.units())
      for (const Parameter& p : unit.parameters) {
        std::vector<float>& v = values[p.name];
        for (int64_t i = 0; i < p.elements(); ++i) v.push_back(initial(p.name, i));
        first_[p.name].resize(v.size());
        second_[p.name].resize(v.size());
      }
  }

  double step(int64_t step) {
    Values gradients;
    optim::NormSum sum;
    for (int u = 0; u < model_.unit_count(); ++u)
      for (const Parameter& p : model_.spec({u}).parameters) {
        gradients[p.name] = gradient(u, p, step);
        sum.add(gradients[p.name]);
      }
    const double norm = sum.norm();
    const StepInfo info{step + 1, job_.optimizer.lr, optim::clip_factor(norm, job_.optimizer.clip_norm)};
    for (const UnitSpec& unit : model_.units())
      for (const Parameter& p : unit.parameters) {
        float* states[] = {first_[p.name].data(), second_[p.name].data()};
        Fragment fragment;
        fragment.name = p.name;
        fragment.group.lr_scale = p.lr_scale;
        if (!p.decay) fragment.group.weight_decay = 0.0;
        fragment.length = p.elements();
        fragment.values = values[p.name].data();
        fragment.gradient = gradients[p.name].data();
        fragment.state = states;
        adamw_.update(fragment, info);
      }
    return norm;
  }

  Values values;

 private:
  void count_runs(int unit) {
    for (int run = 0; run < model_.spec({unit}).repeats; ++run) {
      ++runs_[static_cast<std::size_t>(unit)];
      for (int child = 1; child < model_.unit_count(); ++child)
        if (model_.parent({child}).index == unit) count_runs(child);
    }
  }

  void add(std::vector<float>& into, int unit, const Parameter& p, int64_t step, int rank, int m) const {
    const std::vector<float>& v = values.at(p.name);
    for (int run = 0; run < runs_[static_cast<std::size_t>(unit)]; ++run)
      for (std::size_t i = 0; i < v.size(); ++i)
        into[i] += contribution(v[i], step, rank, m, run, static_cast<int64_t>(i));
  }

  // The sum over each shard group, then over replicas where `replicas` says so.
  std::vector<std::vector<float>> over_shards(const std::vector<std::vector<float>>& by_rank) const {
    std::vector<std::vector<float>> sums;
    for (int first = 0; first < plan_.ranks; first += plan_.shards)
      sums.push_back(tree_sum({by_rank.begin() + first, by_rank.begin() + first + plan_.shards}));
    return sums;
  }

  std::vector<float> gradient(int unit, const Parameter& p, int64_t step) const {
    const Decision& decision = plan_.units[static_cast<std::size_t>(unit)].decision;
    const int count = job_.train.microbatches;
    const bool exchange_each = plan_.replicas() > 1 && plan_.all_reduce == AllReduce::each;
    const bool separate = decision.reduce == Reduce::each && (plan_.shards > 1 || exchange_each);
    const std::vector<float> zeros(values.at(p.name).size(), 0.0F);
    std::vector<float> total;
    if (!separate) {
      std::vector<std::vector<float>> by_rank(static_cast<std::size_t>(plan_.ranks), zeros);
      for (int r = 0; r < plan_.ranks; ++r)
        for (int m = 0; m < count; ++m) add(by_rank[static_cast<std::size_t>(r)], unit, p, step, r, m);
      total = tree_sum(over_shards(by_rank));
    } else {
      std::vector<std::vector<float>> by_replica;
      for (int m = 0; m < count; ++m) {
        std::vector<std::vector<float>> by_rank(static_cast<std::size_t>(plan_.ranks), zeros);
        for (int r = 0; r < plan_.ranks; ++r) add(by_rank[static_cast<std::size_t>(r)], unit, p, step, r, m);
        std::vector<std::vector<float>> sums = over_shards(by_rank);
        if (exchange_each) sums = {tree_sum(sums)};
        if (m == 0)
          by_replica = sums;
        else
          for (std::size_t s = 0; s < sums.size(); ++s)
            for (std::size_t i = 0; i < zeros.size(); ++i) by_replica[s][i] += sums[s][i];
      }
      total = tree_sum(by_replica);
    }
    const auto scale = static_cast<float>(1.0 / (static_cast<double>(plan_.ranks) * count));
    if (scale != 1.0F)
      for (float& g : total) g *= scale;
    return total;
  }

  const Job& job_;
  const Model& model_;
  const Plan& plan_;
  optim::AdamW adamw_;
  std::vector<int> runs_;
  Values first_, second_;
};

}  // namespace reshard::toy
