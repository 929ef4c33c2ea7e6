// A program's own optimizer: it gets every element with its state, whatever strategy runs and however often it changes.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/engine/ways.h"

namespace reshard {
namespace {

using toy::error_of;

TEST(OwnOptimizer, AProgramCanBringItsOwnOptimizer) {
  class Sign final : public Optimizer {
   public:
    std::string name() const override { return "sign"; }
    std::vector<std::string> state_names() const override { return {"last"}; }
    void update(const Fragment& fragment, const StepInfo& info) const override {
      for (int64_t i = 0; i < fragment.length; ++i) {
        fragment.values[i] -= static_cast<float>(info.lr) * (fragment.gradient[i] > 0 ? 1.0F : -1.0F);
        fragment.state[0][i] = fragment.gradient[i];
      }
    }
  };
  const Model model = toy::tree();
  const auto train = [&](const char* strategy, const char* optimizer) {
    toy::Values values;
    Job job = toy::job(2, strategy);
    job.optimizer.name = optimizer;
    launch(job, [&](Rank& rank) {
      Runtime runtime(job, model, rank, std::make_unique<Sign>());
      toy::fill(runtime);
      toy::step(runtime, 0);
      toy::Values mine = toy::read_all(runtime);
      if (rank.first()) values = std::move(mine);
    });
    return values;
  };
  const toy::Values values = train("zero3", "program");
  EXPECT_EQ(values, train("replicate", "program"));
  EXPECT_NE(values.at("a")[0], toy::initial("a", 0));
  // The job's word is not overridden by what the program brings.
  EXPECT_EQ(
      error_of([&] { train("zero3", "adamw"); }),
      "default: this program hands over the optimizer \"sign\", and the job names \"adamw\" (set [optimizer] name = "
      "\"program\" to use the program's own)");
}

// Its state moves with its parameters, element by element, and is in the ledger as predicted.
TEST(OwnOptimizer, AProgramsOptimizerStateIsLaidOutAnewWithItsParameters) {
  class Ageing final : public Optimizer {
   public:
    std::string name() const override { return "ageing"; }
    std::vector<std::string> state_names() const override { return {"age", "sum", "place"}; }
    void update(const Fragment& fragment, const StepInfo& info) const override {
      for (int64_t i = 0; i < fragment.length; ++i) {
        float &age = fragment.state[0][i], &sum = fragment.state[1][i], &place = fragment.state[2][i];
        EXPECT_EQ(age, static_cast<float>(info.step - 1));
        EXPECT_EQ(place, age > 0 ? static_cast<float>(fragment.offset + i) : 0.0F);
        age += 1, sum = 0.5F * sum + fragment.gradient[i], place = static_cast<float>(fragment.offset + i);
        fragment.values[i] -= static_cast<float>(info.lr) * sum;
      }
    }
  };
  const auto train = [](int ranks, bool overlap, bool switching) {
    toy::Values values;
    Job job = toy::job(ranks, "zero3", 1, overlap);
    job.optimizer.name = "program";
    launch(job, [&](Rank& rank) {
      Runtime runtime(job, toy::tree(), rank, std::make_unique<Ageing>());
      toy::fill(runtime);
      const char* const strategies[] = {"replicate", "zero2", "hybrid", "zero3", "node_reshard", "hybrid"};
      for (int s = 0; s < 6; ++s) {
        toy::step(runtime, s);
        const Report report = runtime.report();
        const auto at = static_cast<std::size_t>(MemoryCategory::optimizer_state);
        EXPECT_EQ(report.measured.bytes[at], report.predicted.bytes[at]) << "step " << s;
        if (switching) runtime.switch_strategy({toy::plugin(strategies[s]), {}, "test"});
      }
      toy::Values mine = toy::read_all(runtime);
      if (rank.first()) values = std::move(mine);
    });
    return values;
  };
  for (const int ranks : {1, 2, 4}) {
    const toy::Values expected = train(ranks, false, false);
    EXPECT_NE(expected, toy::Values());
    for (const bool overlap : {false, true}) EXPECT_EQ(train(ranks, overlap, true), expected) << ranks << " ranks";
  }
}

struct Named final : Optimizer {
  Named(std::string own, std::vector<std::string> names) : own_(std::move(own)), names_(std::move(names)) {}
  std::string name() const override { return own_; }
  std::vector<std::string> state_names() const override { return names_; }
  void update(const Fragment&, const StepInfo&) const override {}

 private:
  std::string own_;
  std::vector<std::string> names_;
};

Job with_own_optimizer(int ranks) {
  Job job = toy::job(ranks, "zero3");
  job.optimizer.name = "program";
  return job;
}

TEST(OwnOptimizer, StatesThatNoCheckpointCouldTellApartAreRefused) {
  const auto told = [](const std::vector<std::string>& names) {
    const Job job = with_own_optimizer(1);
    return error_of([&] {
      launch(job, [&](Rank& rank) { Runtime(job, toy::two_units(), rank, std::make_unique<Named>("mine", names)); });
    });
  };
  const std::string remedy = " (give every one a word of its own, without dots: \"exp_avg\")";
  EXPECT_EQ(told({"m", "v", "m"}), "the optimizer mine names two state tensors \"m\"" + remedy);
  for (const std::string bad : {"", "a.b", "first moment", "m\n"})
    EXPECT_EQ(told({"m", bad}), "the optimizer mine names a state tensor \"" + bad + "\", which is no word" + remedy);
  EXPECT_EQ(told({"1", "2", "3", "4", "5", "6", "7", "8", "9"}),
            "the optimizer mine names 9 state tensors; at most 8 are carried");
  for (const std::vector<std::string>& good :
       {std::vector<std::string>{}, {"exp_avg", "exp_avg_sq"}, {"1", "2", "3", "4", "5", "6", "7", "8"}})
    EXPECT_EQ(told(good), "no error");
}

// Ranks whose states differ would lay them out anew in another number of collectives.
TEST(OwnOptimizer, RanksWithOtherOptimizersOrStatesAreNamed) {
  const auto told = [](const Named& last) {
    const Job job = with_own_optimizer(3);
    return error_of([&] {
      launch(job, [&](Rank& rank) {
        const bool other = rank.index() == 2;
        Runtime(job, toy::two_units(), rank, std::make_unique<Named>(other ? last : Named("mine", {"m", "v"})));
      });
    });
  };
  EXPECT_EQ(told(Named("mine", {"m", "v"})), "no error");
  for (const Named& other : {Named("yours", {"m", "v"}), Named("mine", {"v", "m"}), Named("mine", {"m", "w"})}) {
    const std::string text = told(other);
    EXPECT_EQ(text.find("rank 2 has optimizer "), 0U) << text;
    EXPECT_NE(text.find("; rank 0 has optimizer "), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace reshard
