#pragma once

// Random models, plans and training programs for the property tests of the scheduler. Everything follows from a seed.

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "reshard/model.h"
#include "schedule/scheduler.h"
#include "schedule/totals.h"
#include "schedule/verify.h"

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

// 1 to `most_units` units, nested, repeated, of 0 (root) or 1 element upwards, prime sizes included.
Model random_model(Dice& dice, int most_units = 40);

// Any legal decision of every field, on a random mesh.
Step random_step(Dice& dice, const Model& model);

// The scheduler's input: what engine/planning makes of a plan. fp32.
Step plain_step(const Model& model, int shards, int replicas, int microbatches, const Decision& decision);

// One run of a unit's forward, with the runs inside it.
struct Run {
  int unit = 0;
  std::vector<Run> inside;
};

// A training program on one scheduler: every hook's ops go to the verifier and the totals, which must agree.
class Program {
 public:
  Program(const Model& model, Step step, Dice& dice);

  void declared_step();
  void random_step();  // units left out, run several times, in another order; recomputes
  void random_evaluation();
  void random_reads();
  void release() { hook(Hook::release); }

  // Runs a random step up to a random hook, then abandons it.
  void abandoned_step();

  void hook(Hook hook, int unit = -1);

  bool at_rest() const { return totals_.now() == BytesByCategory{}; }
  const Totals& totals() const { return totals_; }
  const Verifier& verifier() const { return verifier_; }
  Scheduler& scheduler() { return scheduler_; }
  int most_live_gathers() const { return most_live_gathers_; }

 private:
  struct Thrown {};

  Run random_run(int unit, double skip);
  std::vector<Run> random_pass(double skip);
  void forward(const Run& run);
  void backward(const Run& run, double skip, double recompute);
  void micro_batch(bool last);
  void watch(int unit, std::span<const Op> ops);
  bool encloses(int outer, int inner) const;

  const Model& model_;
  Dice& dice_;
  Scheduler scheduler_;
  Verifier verifier_;
  Totals totals_{BytesByCategory{}};
  std::vector<std::vector<int>> children_;
  std::vector<bool> gathered_;  // a gather's result, or one under way, is there
  int hooks_until_throw_ = -1;
  int most_live_gathers_ = 0;
};

}  // namespace reshard::schedule
