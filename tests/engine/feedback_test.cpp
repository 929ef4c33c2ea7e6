// A strategy that listens is told the same on every rank, and has another plan when it asks for one: with the same
// bits, within the budget, under the user's own words, on all ranks or on none.

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "reshard/text.h"
#include "tests/engine/ways.h"

namespace reshard {
namespace {

std::string listener() {
  return std::string(RESHARD_BINARY_DIR) + "/tests/engine/listener.so";
}

OptionValues with(std::initializer_list<std::pair<const char*, decltype(OptionValue::value)>> list) {
  OptionValues options;
  for (const auto& [name, value] : list) options[name] = {value, "test"};
  return options;
}

Job listening(const toy::Way& way, const OptionValues& options = {}, int microbatches = 2) {
  Job job = toy::job(way, microbatches);
  job.strategy.plugin = listener();
  job.strategy.options["listener"] = options;
  return job;
}

// What a rank's instance was told, decision by decision.
std::vector<std::string> told(const Report& report) {
  std::vector<std::string> all;
  for (const Replan& replan : report.replans) all.push_back(base::list_text(replan.log));
  return all;
}

class Feedback : public testing::TestWithParam<toy::Way> {};

TEST_P(Feedback, IsTheSameOnEveryRankAndTellsEveryStepOnce) {
  const toy::Way way = GetParam();
  std::vector<std::vector<std::string>> all(static_cast<std::size_t>(way.ranks));
  toy::run(listening(way), toy::tree(), [&](Runtime& runtime) {
    for (int s = 0; s < 6; ++s) EXPECT_EQ(toy::step(runtime, s).decided_anew, s % 2 == 1);
    all[static_cast<std::size_t>(runtime.rank().index())] = told(runtime.report());
  });
  for (const auto& rank : all) EXPECT_EQ(rank, all[0]) << way.text();
  ASSERT_EQ(all[0].size(), 3U);
  for (int turn = 0; turn < 3; ++turn) {
    const std::string& text = all[0][static_cast<std::size_t>(turn)];
    EXPECT_TRUE(base::glob_match(
        "warning: step " + std::to_string(2 * turn) + " first 0x*;*step " + std::to_string(2 * turn + 1) + " 0x*;*",
        text))
        << text;
  }
}

// The plan changes every second step, and no bit of any loss or parameter.
TEST_P(Feedback, NewPlansLeaveTheBitsOfOne) {
  const toy::Way way = GetParam();
  const auto train = [&](const Job& job, int& replans) {
    std::pair<std::vector<double>, toy::Values> result;
    toy::run(job, toy::tree(), [&](Runtime& runtime) {
      std::vector<double> losses;
      for (int s = 0; s < 8; ++s) {
        losses.push_back(toy::step(runtime, s).loss);
        if (s % 3 == 2) runtime.evaluate([&] { toy::Pass(runtime, {}).forward(0); });
      }
      const toy::Values values = toy::read_all(runtime);
      if (runtime.rank().first())
        result = {losses, values}, replans = static_cast<int>(runtime.report().replans.size());
    });
    return result;
  };
  int changed = 0, unchanged = 0;
  const auto anew = train(listening(way), changed);
  Job plain = toy::job(way, 2);
  plain.strategy.plugin = toy::plugin("zero3");
  EXPECT_EQ(anew, train(plain, unchanged)) << way.text();
  EXPECT_EQ(changed, 4);
  EXPECT_EQ(unchanged, 0);
}

// Every plan's peak is what was predicted of it, and what a rank holds between steps is the same under all of them.
TEST_P(Feedback, EachPlanHoldsWhatWasPredicted) {
  const toy::Way way = GetParam();
  toy::run(listening(way, with({{"every", int64_t{2}}, {"turns", int64_t{3}}})), toy::tree(), [&](Runtime& runtime) {
    const auto at_rest = toy::live(runtime);
    MemoryPeak predicted = runtime.report().predicted;
    for (int s = 0; s < 8; ++s) {
      const bool anew = toy::step(runtime, s).decided_anew;
      const Report report = runtime.report();
      const MemoryPeak& measured = anew ? report.replans.back().measured_before : report.measured;
      EXPECT_EQ(measured.total(), predicted.total()) << way.text() << ", step " << s;
      EXPECT_EQ(toy::live(runtime), at_rest) << way.text() << ", step " << s;
      predicted = report.predicted;
    }
    EXPECT_EQ(runtime.report().replans.size(), 3U);
  });
}

TEST_P(Feedback, OtherSumsAndAnotherMeshAreSaidAndCarriedOut) {
  const toy::Way way = GetParam();
  const OptionValues options = with({{"turns", int64_t{1}}, {"reduce_last", true}, {"replicate", true}});
  toy::run(listening(way, options), toy::tree(), [&](Runtime& runtime) {
    const toy::Values before = [&] {
      toy::step(runtime, 0), toy::step(runtime, 1);
      return toy::read_all(runtime);
    }();
    const Report report = runtime.report();
    ASSERT_EQ(report.replans.size(), 1U);
    EXPECT_FALSE(report.replans[0].adds_alike);
    EXPECT_EQ(report.replans[0].relaid, way.ranks > 1);
    EXPECT_EQ(report.shards, 1);
    EXPECT_EQ(report.replans[0].plan_hash, report.plan_hash);
    EXPECT_TRUE(std::ranges::find(report.replans[0].changes, "root: reduce = last: plan 1") !=
                report.replans[0].changes.end())
        << base::list_text(report.replans[0].changes);
    toy::step(runtime, 2);
    EXPECT_NE(toy::read_all(runtime), before);
  });
}

INSTANTIATE_TEST_SUITE_P(Ways, Feedback,
                         testing::Values(toy::Way{"zero3", 1}, toy::Way{"zero3", 2}, toy::Way{"zero3", 2, true},
                                         toy::Way{"zero3", 3, true}, toy::Way{"zero3", 4}),
                         [](const auto& way) {
                           return std::to_string(way.param.ranks) + (way.param.overlap ? "_overlap" : "");
                         });

// A failure of the listening is every rank's, and the step that it followed is done.
std::vector<std::string> errors(const OptionValues& options, int64_t budget = 0) {
  std::vector<std::string> all(2);
  Job asked = listening({"zero3", 2}, options);
  asked.memory.budget = budget;
  toy::run(asked, toy::tree(), [&](Runtime& runtime) {
    toy::step(runtime, 0);
    all[static_cast<std::size_t>(runtime.rank().index())] = toy::error_of([&] { toy::step(runtime, 1); });
    EXPECT_EQ(runtime.steps_done(), 2);
  });
  return all;
}

TEST(FeedbackFails, WhereTheStrategySaysSo) {
  for (const std::string& error : errors(with({{"fault", std::string("throws")}})))
    EXPECT_TRUE(error.ends_with("feedback failed: it does not like this step")) << error;
}

TEST(FeedbackFails, WhereOneRankAlonesWantsAnotherPlan) {
  for (const std::string& error : errors(with({{"fault", std::string("odd_wish")}, {"turns", int64_t{0}}})))
    EXPECT_TRUE(base::glob_match(
        "strategy listener asks to decide anew after 2 steps on rank ?, and does not on rank ? (it must "
        "go by its options, the problem and what it is told alone)",
        error))
        << error;
}

TEST(FeedbackFails, WhereRanksDecideDifferently) {
  for (const std::string& error : errors(with({{"fault", std::string("odd_plan")}})))
    EXPECT_TRUE(
        base::glob_match("rank 1 has plan ????????????????; rank 0 has plan ???????????????? (give every rank the "
                         "same job, model and plugin files)",
                         error))
        << error;
}

TEST(FeedbackFails, WhereTheNewPlanIsAboveTheBudget) {
  const int64_t first = [] {
    int64_t bytes = 0;
    toy::run(listening({"zero3", 2}), toy::tree(), [&](Runtime& runtime) {
      if (runtime.rank().first()) bytes = runtime.report().predicted.total();
    });
    return bytes;
  }();
  for (const std::string& error : errors(with({{"fault", std::string("keeps_all")}}), first))
    EXPECT_TRUE(base::glob_match(
        "default: strategy listener needs * per rank at its predicted peak (*), above the budget of *", error))
        << error;
}

TEST(Feedbacks, TheUsersWordHoldsForEveryPlan) {
  Job asked = listening({"zero3", 2});
  UnitOverride kept;
  kept.match = "*";
  kept.after_forward = {AfterForward::free(), "test"};
  asked.strategy.units.push_back(kept);
  toy::run(asked, toy::tree(), [](Runtime& runtime) {
    for (int s = 0; s < 4; ++s) EXPECT_FALSE(toy::step(runtime, s).decided_anew);
    EXPECT_TRUE(runtime.report().replans.empty());
  });
}

// While gradients are carried over to the next update, no plan changes and nothing is told.
TEST(Feedbacks, NothingIsToldWhileGradientsAreCarried) {
  toy::run(listening({"zero3", 2}, with({{"every", int64_t{1}}})), toy::tree(), [](Runtime& runtime) {
    runtime.begin_step();
    runtime.begin_micro_batch();
    toy::Pass(runtime, {0, 0, 2})();
    runtime.begin_micro_batch();
    toy::Pass(runtime, {0, 1, 2})();
    runtime.carry();
    EXPECT_FALSE(runtime.end_step(1.0).decided_anew);
    EXPECT_TRUE(toy::step(runtime, 1).decided_anew);
    ASSERT_EQ(runtime.report().replans.size(), 1U);
    const std::string text = base::list_text(runtime.report().replans[0].log);
    EXPECT_TRUE(text.starts_with("warning: step 1 0x")) << text;
  });
}

// Who switches away and back meets an instance that was told nothing.
TEST(Feedbacks, ASwitchBeginsWithTheFirstPlan) {
  toy::run(listening({"zero3", 2}), toy::tree(), [](Runtime& runtime) {
    const std::string first = runtime.report().plan_hash;
    for (int s = 0; s < 4; ++s) toy::step(runtime, s);
    runtime.switch_strategy({toy::plugin("zero2"), {}, "test"});
    for (int s = 4; s < 7; ++s) EXPECT_FALSE(toy::step(runtime, s).decided_anew);
    EXPECT_EQ(runtime.switch_strategy({listener(), {}, "test"}).plan_hash, first);
    EXPECT_TRUE(toy::step(runtime, 7).decided_anew);
  });
}

}  // namespace
}  // namespace reshard
