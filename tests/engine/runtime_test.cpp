// The runtime's public face: what a program may rely on beside the bits (tests/property) and the ops (tests/schedule).

#include <algorithm>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "reshard/error.h"
#include "tests/engine/toy.h"
#include "tests/engine/ways.h"

namespace reshard {
namespace {

Model blocks(int count = 3) {
  Model model({.name = "root", .parameters = {{"a", {100}}, {"scalar", {}}}});
  for (int b = 0; b < count; ++b)
    model.add({.name = "h." + std::to_string(b),
               .parameters = {{"w" + std::to_string(b), {9, 11}}, {"b" + std::to_string(b), {11}, false}}});
  return model;
}

using Body = std::function<void(Runtime&)>;

void run(const Job& job, const Model& model, const Body& body) {
  toy::run(job, model, body);
}

StepResult step(Runtime& runtime) {
  return runtime.step([&](MicroBatch at) { return toy::Pass(runtime, at)(); });
}

toy::Values values_after(const Job& job, const Model& model, int steps, const Body& between = {}) {
  toy::Values values;
  run(job, model, [&](Runtime& runtime) {
    for (int s = 0; s < steps; ++s) {
      step(runtime);
      if (between) between(runtime);
    }
    toy::Values mine = toy::read_all(runtime);
    if (runtime.rank().first()) values = std::move(mine);
  });
  return values;
}

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Runtime, FillAndReadGiveTheSameValuesAtEveryRankCount) {
  const Model model = blocks();
  for (const int ranks : {1, 2, 3, 5, 8})
    run(toy::job(ranks, "zero3"), model, [&](Runtime& runtime) {
      const toy::Values values = toy::read_all(runtime);
      for (const auto& [name, v] : values)
        for (std::size_t i = 0; i < v.size(); ++i) ASSERT_EQ(v[i], toy::initial(name, static_cast<int64_t>(i))) << name;
    });
}

// `same`: the strategies that reduce at the same points as zero3 whatever the number of micro-batches.
void expect_the_bits_of_zero3(std::initializer_list<int> ranks, int microbatches,
                              const std::function<bool(const std::string&)>& same) {
  const Model model = blocks();
  std::map<std::pair<int, bool>, toy::Values> expected;
  toy::for_each_way(ranks, [&](const toy::Way& way) {
    if (!same(way.strategy)) return;
    toy::Values& values = expected[{way.ranks, way.overlap}];
    if (values.empty()) values = values_after(toy::job({"zero3", way.ranks, way.overlap}, microbatches), model, 3);
    EXPECT_EQ(values_after(toy::job(way, microbatches), model, 3), values) << way.text();
  });
}

TEST(Runtime, EveryStrategyLeavesTheSameBitsAtOneMicroBatch) {
  expect_the_bits_of_zero3({1, 2, 3, 4}, 1, [](const std::string&) { return true; });
}

TEST(Runtime, StrategiesThatReduceAtTheSamePointsLeaveTheSameBitsAtFourMicroBatches) {
  expect_the_bits_of_zero3({2, 3, 4}, 4, [](const std::string& strategy) {
    return strategy != "replicate" && strategy != "zero1";  // which add up in memory of their own and reduce last
  });
}

TEST(Runtime, AnEvaluationBetweenStepsChangesNothing) {
  const Model model = blocks();
  toy::for_each_way({2}, [&](const toy::Way& way) {
    const Job job = toy::job(way, 2);
    const toy::Values expected = values_after(job, model, 3);
    const Body evaluate = [](Runtime& runtime) { runtime.evaluate([&] { toy::Pass(runtime, {}).forward(0); }); };
    EXPECT_EQ(values_after(job, model, 3, evaluate), expected) << way.text();
  });
}

TEST(Runtime, SwitchingBetweenStepsChangesNothingAndRelaysWhereShardOverChanges) {
  const Model model = blocks();
  const toy::Values expected = values_after(toy::job(4, "zero3"), model, 5);
  for (const char* other : {"zero2", "root_no_reshard", "replicate", "zero1", "hybrid", "node_reshard", "keep_last"}) {
    const Body there_and_back = [&](Runtime& runtime) {
      const char* next = runtime.steps_done() % 2 == 1 ? other : "zero3";
      const SwitchResult result = runtime.switch_strategy({toy::plugin(next), {}, "test"});
      const int others = std::string(other) == "replicate" ? 1 : std::string(other) == "hybrid" ? 2 : 4;
      EXPECT_EQ(result.relaid, others != 4);
      // Parameters and two states, of which a rank receives what the others of its old shard group hold.
      const int64_t whole_bytes = 4 * (64 + 3 * 64) * 4, from = runtime.steps_done() % 2 == 1 ? 4 : others;
      EXPECT_EQ(result.bytes_relaid, result.relaid ? 3 * whole_bytes / from * (from - 1) : 0);
    };
    EXPECT_EQ(values_after(toy::job(4, "zero3"), model, 5, there_and_back), expected) << other;
  }
}

TEST(Runtime, TheStagesOfAStepAreTheStep) {
  const Model model = blocks();
  const Job job = toy::job(2, "zero2", 3);
  const toy::Values expected = values_after(job, model, 2);
  toy::Values staged;
  run(job, model, [&](Runtime& runtime) {
    for (int s = 0; s < 2; ++s) {
      runtime.begin_step();
      double loss = 0;
      for (int m = 0; m < 3; ++m) {
        runtime.begin_micro_batch();
        loss += toy::Pass(runtime, {s, m, 3})();
      }
      runtime.reduce();
      runtime.update(runtime.gradient_norm());
      EXPECT_EQ(runtime.end_step(loss).step, s);
    }
    toy::Values mine = toy::read_all(runtime);
    if (runtime.rank().first()) staged = std::move(mine);
  });
  EXPECT_EQ(staged, expected);
}

TEST(Runtime, AnExceptionInsideAHookReturnsEveryUnitToShardedAndTheNextStepIsAsIfNothingHadBeen) {
  const Model model = blocks();
  for (const char* strategy : tests::kShipped)
    for (int fail_at = 0; fail_at < 8; ++fail_at) {
      const Job job = toy::job(2, strategy, 1, fail_at % 2 == 1);
      const toy::Values expected = values_after(job, model, 2);
      toy::Values values;
      run(job, model, [&](Runtime& runtime) {
        step(runtime);
        int hooks = 0;
        const auto use = [&](const View&) {
          if (hooks++ == fail_at) throw std::runtime_error("out of memory");
        };
        // Every rank's own, or the news of the other's.
        EXPECT_ANY_THROW(runtime.step([&](MicroBatch) {
          runtime.forward(kRoot, [&](const View& view) {
            use(view);
            for (int b = 1; b <= 3; ++b) runtime.forward({b}, use);
          });
          runtime.backward(kRoot, [&](const View& view) {
            for (int b = 3; b >= 1; --b) runtime.backward({b}, use);
            use(view);
          });
          return 0.0;
        }));
        step(runtime);
        toy::Values mine = toy::read_all(runtime);
        if (runtime.rank().first()) values = std::move(mine);
      });
      EXPECT_EQ(values, expected) << strategy << ", hook " << fail_at;
    }
}

TEST(Runtime, ALossThatIsNotANumberStopsEveryRankNamingRankAndStep) {
  const Job job = toy::job(3, "zero3");
  const std::string error = error_of([&] {
    run(job, blocks(), [&](Runtime& runtime) {
      step(runtime);
      runtime.step(
          [&](MicroBatch at) { return toy::Pass(runtime, at)() + (runtime.rank().index() == 2 ? std::nan("") : 0.0); });
    });
  });
  EXPECT_EQ(
      error,
      "the loss is nan on rank 2 at step 1 (lower [optimizer] lr, set clip_norm, or look at the data of that step)");
}

TEST(Runtime, AStopThatOneRankRequestsIsSeenByAllAfterTheSameStep) {
  run(toy::job(3, "zero3"), blocks(), [&](Runtime& runtime) {
    EXPECT_FALSE(step(runtime).stop_requested);
    if (runtime.rank().index() == 1) runtime.request_stop();
    EXPECT_TRUE(step(runtime).stop_requested);
  });
}

TEST(Runtime, APlanAboveTheBudgetIsRefusedBeforeAnythingRuns) {
  Job job = toy::job(2, "zero3");
  job.memory.budget = 4096;
  const std::string error = error_of([&] { run(job, blocks(), [](Runtime&) { FAIL() << "nothing may run"; }); });
  EXPECT_NE(error.find("above the budget of 4 KiB; largest: "), std::string::npos) << error;
}

TEST(Runtime, ReadingAParameterThatIsNotThereNamesTheNearest) {
  run(toy::job(1, "zero3"), blocks(), [&](Runtime& runtime) {
    EXPECT_EQ(error_of([&] { runtime.read("scalr"); }),
              "the model has no parameter \"scalr\" (did you mean \"scalar\"?)");
  });
}

TEST(Runtime, AProgramsOwnMemoryIsCountedAsActivations) {
  Model model = blocks(1);
  run(toy::job(1, "zero3"), model, [&](Runtime& runtime) {
    const auto activations = [&] {
      return runtime.report().measured.bytes[static_cast<std::size_t>(MemoryCategory::activations)];
    };
    {
      const Buffer buffer = runtime.allocate(1000);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.floats()) % 64, 0U);
      EXPECT_EQ(activations(), 1000);
    }
    runtime.reset_peak();
    EXPECT_EQ(activations(), 0);
  });
}

TEST(Runtime, FillingAfterAnEvaluationLeavesNothingStale) {
  const Model model = blocks();
  for (const char* strategy : tests::kShipped)
    run(toy::job(2, strategy), model, [&](Runtime& runtime) {
      runtime.evaluate([&] { toy::Pass(runtime, {}).forward(0); });
      runtime.fill([](std::string_view, int64_t, std::span<float> values) { std::ranges::fill(values, 7.0F); });
      runtime.evaluate([&] {
        runtime.forward(kRoot, [&](const View& view) { EXPECT_EQ(view.parameter(0)[99], 7.0F) << strategy; });
      });
    });
}

TEST(Runtime, FrozenParametersAreInNoNormAndNoUpdate) {
  Model model({.name = "root", .parameters = {{"a", {100}}, {"frozen", {100}, true, 1.0, false}}});
  model.add({.name = "h.0", .parameters = {{"also_frozen", {64}, true, 1.0, false}}});
  Model bare({.name = "root", .parameters = {{"a", {100}}}});
  const auto norm_and_values = [&](const Model& declared) {
    std::pair<double, toy::Values> result;
    run(toy::job(2, "zero3", 2), declared, [&](Runtime& runtime) {
      const StepResult done = runtime.step([&](MicroBatch) {
        runtime.forward(kRoot, [&](const View&) {
          if (declared.unit_count() > 1) runtime.forward({1}, [](const View&) {});
        });
        runtime.backward(kRoot, [&](const View& view) {
          if (declared.unit_count() > 1) runtime.backward({1}, [](const View&) {});
          for (float& g : view.gradient(0)) g += 0.5F;
        });
        return 0.0;
      });
      toy::Values values = toy::read_all(runtime);
      if (runtime.rank().first()) result = {done.gradient_norm, std::move(values)};
    });
    return result;
  };
  const auto [norm, values] = norm_and_values(model);
  EXPECT_EQ(norm, norm_and_values(bare).first);
  EXPECT_EQ(norm, 5.0);
  EXPECT_EQ(values.at("frozen")[3], toy::initial("frozen", 3));
  EXPECT_EQ(values.at("also_frozen")[3], toy::initial("also_frozen", 3));
  EXPECT_NE(values.at("a")[3], toy::initial("a", 3));
}

TEST(Runtime, AFrozenUnitHasNoOptimizerStatePlannedOrReal) {
  const auto states = [](bool frozen, const char* then) {
    Model model({.name = "root", .parameters = {{"a", {100}}}});
    model.add({.name = "h.0", .parameters = {{"b", {300}, true, 1.0, !frozen}, {"c", {10}, true, 1.0, !frozen}}});
    int64_t bytes = 0;
    run(toy::job(2, "zero3", 1, true), model, [&](Runtime& runtime) {
      runtime.switch_strategy({toy::plugin(then), {}, "test"});
      const Report report = runtime.report();
      const auto at = static_cast<std::size_t>(MemoryCategory::optimizer_state);
      EXPECT_EQ(report.measured.bytes[at], report.predicted.bytes[at]);
      if (runtime.rank().first()) bytes = report.measured.bytes[at];
      const auto pass = [&](const View&) { runtime.forward({1}, [](const View&) {}); };
      runtime.step([&](MicroBatch) {
        runtime.forward(kRoot, pass);
        runtime.backward(kRoot, [](const View&) {});
        return 0.0;
      });
      EXPECT_EQ(runtime.read("b")[299], toy::initial("b", 299));
    });
    return bytes;
  };
  EXPECT_EQ(states(true, "zero3"), 2 * 64 * 4);
  EXPECT_EQ(states(true, "replicate"), 2 * 128 * 4);  // the layout changes, and there is no state to lay out anew
  EXPECT_EQ(states(false, "zero3"), 2 * (64 + 192) * 4);
}

TEST(Runtime, AnOptimizerThatThrowsLeavesARuntimeThatSaysSo) {
  class Failing final : public Optimizer {
   public:
    std::string name() const override { return "failing"; }
    std::vector<std::string> state_names() const override { return {}; }
    void update(const Fragment&, const StepInfo& info) const override {
      if (info.step == 2 && !std::exchange(failed_, true)) throw std::runtime_error("no more");
    }
    mutable bool failed_ = false;
  };
  for (const char* strategy : tests::kShipped) {
    Job job = toy::job(2, strategy, 2, true);
    job.optimizer.name = "program";
    job = toy::with_budget(job, blocks(), 0);
    launch(job, [&](Rank& rank) {
      Runtime runtime(job, blocks(), rank, std::make_unique<Failing>());
      toy::fill(runtime);
      step(runtime);
      const int64_t at_rest = [&] {
        runtime.reset_peak();
        return runtime.report().measured.total();
      }();
      EXPECT_ANY_THROW(step(runtime));
      runtime.reset_peak();
      EXPECT_EQ(runtime.report().measured.total(), at_rest) << strategy << ": everything is given back";
      EXPECT_EQ(error_of([&] { step(runtime); }),
                "this runtime failed while it updated parameters (end the run; what it had learnt since is lost)");
    });
  }
}

TEST(Runtime, AGradientInAForwardHookIsAnErrorThatNamesIt) {
  EXPECT_EQ(error_of([] {
              run(toy::job(1, "zero3"), blocks(), [](Runtime& runtime) {
                runtime.step([&](MicroBatch) {
                  runtime.forward(kRoot, [](const View& view) { view.gradient(0)[0] = 1; });
                  return 0.0;
                });
              });
            }),
            "parameter \"a\" of unit \"root\" has no gradient in a forward hook (add to it in backward)");
}

}  // namespace
}  // namespace reshard
