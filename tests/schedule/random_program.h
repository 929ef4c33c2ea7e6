#pragma once

// Random models, plans and training programs for the property tests of the scheduler and of the runtime: the same
// programs drive both. Everything follows from a seed.

#include <random>
#include <vector>

#include "reshard/model.h"
#include "schedule/hook.h"
#include "schedule/scheduler.h"

namespace reshard::schedule {

class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}
  int roll(int least, int most) { return std::uniform_int_distribution<int>(least, most)(engine_); }
  bool chance(double probability) { return std::bernoulli_distribution(probability)(engine_); }
  template <typename T>
  T pick(std::initializer_list<T> values) {
    return *(values.begin() + roll(0, static_cast<int>(values.size()) - 1));
  }
  std::mt19937_64& engine() { return engine_; }

 private:
  std::mt19937_64 engine_;
};

// 1 to `most_units` units, nested, repeated, partly frozen, of 0 (root) or 1 to `most_elements` elements per parameter,
// prime sizes included. `unused`: how probable it is that a unit may be unused.
Model random_model(Dice& dice, int most_units = 40, int most_elements = 20000, double unused = 0);

// Any legal decision of every field, on a random mesh, in any precision; units whose backward reads no parameters.
Step random_step(Dice& dice, const Model& model);

// The scheduler's input: what engine/planning makes of a plan. fp32.
Step plain_step(const Model& model, int shards, int replicas, int microbatches, const Decision& decision);

constexpr int kMadeUp = -2;  // the number of a run that the scheduler makes up

struct HookCall {
  Hook hook = Hook::begin_step;
  int unit = -1;
  int run = -1;  // in the step: a run's forward, recomputes and backward have one number
};
using HookCalls = std::vector<HookCall>;

// What the declared step calls, begin_step to end_step.
HookCalls declared_calls(const Model& model, const Step& step);

// The same program at a rank that leaves out some runs of units that may be unused, and of some the backwards.
HookCalls leave_out(Dice& dice, const Step& step, const HookCalls& calls);

// Makes legal programs of a model. Hooks of units are nested in one another.
class RandomProgram {
 public:
  // `shared`: only programs of which ranks may leave runs out. Then units that may be unused follow the ordinary one that
  // they are declared to follow, each as often as declared; that unit is not left out where the order is another; and every
  // ordinary unit's backward comes; and what is recomputed is an ordinary unit.
  RandomProgram(const Model& model, Dice& dice, bool shared = false);

  // Units left out, run several times, inside themselves, in another order; backwards left out; recomputes; several
  // forward and backward passes in one micro-batch; several micro-batches in flight; with a reduce hook of its own or without.
  HookCalls step(int microbatches);
  HookCalls evaluation();
  HookCalls reads();  // some of them inside others

 private:
  // One run of a unit's forward, with the runs inside it.
  struct Run {
    int unit = 0;
    int number = 0;
    std::vector<Run> inside;
  };

  bool optional(int unit) const;
  std::vector<int> random_order(int unit);

  Run random_run(int unit, double skip);
  std::vector<Run> random_pass(double skip);
  void forward(const Run& run);
  void backward(const Run& run, double skip, double recompute);
  void micro_batch(bool last);
  void in_flight(int microbatches);
  void call(Hook hook, int unit = -1, int run = -1) { calls_.push_back({hook, unit, run}); }

  const Model& model_;
  Dice& dice_;
  const bool shared_;
  int numbers_ = 0;
  std::vector<std::vector<int>> children_;
  HookCalls calls_;
};

}  // namespace reshard::schedule
