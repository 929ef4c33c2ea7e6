// adaptive, told of steps by hand: when it asks to decide anew, what it keeps then, and when it takes that back.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "plugin/strategy.h"
#include "tests/plugin/problem.h"

namespace reshard::plugin {
namespace {

using tests::shipped;
using tests::toy;
using tests::value;

// A problem whose peak is `base` and the bytes of kept units.
Problem summing(int blocks, int64_t base, int64_t budget) {
  Problem problem = toy(blocks);
  problem.budget_bytes = budget;
  const std::vector<ProblemUnit> units = problem.units;
  problem.predicted_peak = [units, base](const Answers& given) {
    int64_t peak = base;
    for (std::size_t i = 0; i < given.units.size(); ++i)
      if (given.units[i].after_forward == AfterForward::keep()) peak += units[i].bytes;
    return peak;
  };
  return problem;
}

class Told {
 public:
  explicit Told(const Problem& problem, const OptionValues& options = {})
      : problem_(problem), instance_(Strategy::load(shipped("adaptive")).create(options)) {}

  // How many steps it heard of before it asked to decide anew; 0: it did not within 100.
  int steps(double seconds, const std::vector<double>& exposed) {
    for (int i = 1; i <= 100; ++i)
      if (tell(seconds, exposed)) return i;
    return 0;
  }
  bool tell(double seconds, const std::vector<double>& exposed, bool skipped = false) {
    StepSummary step;
    step.step = number_++;
    step.first_of_plan = first_, first_ = false;
    step.skipped = skipped;
    step.seconds = seconds;
    for (std::size_t u = 0; u < problem_.units.size(); ++u)
      step.units.push_back({1.0, u < exposed.size() ? exposed[u] : 0, 1.0, 2});  // the others are no reason to keep
    return instance_.tell(step);
  }
  std::string kept() {
    first_ = true;
    const Answers answers = instance_.decide(problem_);
    std::string names;
    for (std::size_t u = 0; u < answers.units.size(); ++u)
      if (answers.units[u].after_forward == AfterForward::keep())
        names += (names.empty() ? "" : " ") + problem_.units[u].name;
    return names;
  }
  std::string text() { return tests::text(problem_, instance_.decide(problem_)); }

 private:
  const Problem problem_;
  StrategyInstance instance_;
  int64_t number_ = 0;
  bool first_ = true;
};

TEST(Adaptive, NeedsToKnowWhatItMaySpend) {
  EXPECT_EQ(
      tests::error_text([] { tests::answers(toy(1), "adaptive"); }),
      "plan: strategy adaptive cannot serve this job: neither memory.budget nor its option `spend` says how much it "
      "may keep; set one, as in [memory] budget = \"2 GiB\"");
}

TEST(Adaptive, KeepsNothingBeforeItHasMeasured) {
  Told told(summing(1, 1000, 100000));
  EXPECT_EQ(told.text(),
            "root free/free/each 1 1: freed: nothing is measured yet\n"
            "h.0 free/free/each 1 1: freed: nothing is measured yet\n"
            "lm_head free/free/each 1 1: freed: nothing is measured yet\n");
  EXPECT_EQ(told.steps(0.1, {0.01}), 6);  // the first of a plan does not count
}

TEST(Adaptive, SkippedStepsAndOneSlowStepDecideNothing) {
  Told told(summing(1, 1000, 100000), {{"measure", value(int64_t{3})}});
  EXPECT_FALSE(told.tell(0.1, {}));
  EXPECT_FALSE(told.tell(0.1, {0.09}, true));
  EXPECT_FALSE(told.tell(9.0, {8.0}));
  EXPECT_FALSE(told.tell(0.1, {}));
  EXPECT_FALSE(told.tell(0.1, {}));  // by now three have counted: the middle one shows nothing
  EXPECT_EQ(told.steps(0.1, {0.09}), 0) << "it has settled";
}

TEST(Adaptive, KeepsWhatIsExposedMostPerByteAndSaysWhy) {
  Told told(summing(3, 1000, 1000 + 1024 + 3072), {{"measure", value(int64_t{1})}});
  told.kept();
  EXPECT_EQ(told.steps(0.1, {0.02, 0.002, 0.001, 0.03, 0.1}), 2);  // root, h.0 … h.2, lm_head
  EXPECT_EQ(told.kept(), "h.0 h.2");
  EXPECT_EQ(
      told.text(),
      "root free/free/each 1 1: freed: exposed for 20 ms a step, but its 4 KiB do not fit; peak 4.98 KiB of 4.98 KiB\n"
      "h.0 keep/free/each 1 1: kept: its gather in backward was exposed for 2 ms a step, for 1 KiB; peak 4.98 KiB of "
      "4.98 KiB\n"
      "h.1 free/free/each 1 1: freed: exposed for 1 ms a step, but its 2 KiB do not fit; peak 4.98 KiB of 4.98 KiB\n"
      "h.2 keep/free/each 1 1: kept: its gather in backward was exposed for 30 ms a step, for 3 KiB; peak 4.98 KiB of "
      "4.98 KiB\n"
      "lm_head free/free/each 1 1: freed: exposed for 100 ms a step, but its 1 MiB do not fit; peak 4.98 KiB of 4.98 "
      "KiB\n");
}

TEST(Adaptive, SpendsItsOptionWhereThereIsNoBudget) {
  Told told(summing(3, 1000, 0), {{"measure", value(int64_t{1})}, {"spend", value(std::string("3 KiB"))}});
  told.kept();
  EXPECT_EQ(told.steps(0.1, {0.0, 0.01, 0.01, 0.01}), 2);
  EXPECT_EQ(told.kept(), "h.0 h.1");
}

TEST(Adaptive, StaysWhereTheStepsBecameFasterAndTakesBackWhereNot) {
  for (const double after : {0.08, 0.0999}) {
    Told told(summing(3, 1000, 100000), {{"measure", value(int64_t{2})}});
    told.kept();
    EXPECT_EQ(told.steps(0.1, {0.02}), 3);
    EXPECT_EQ(told.kept(), "root");
    EXPECT_EQ(told.steps(after, {}), after < 0.09 ? 0 : 3);
    EXPECT_EQ(told.kept(), after < 0.09 ? "root" : "");
    EXPECT_EQ(told.steps(0.5, {0.4}), 0) << "it has settled";
  }
}

TEST(Adaptive, ChangesNothingWhereLittleIsExposed) {
  Told told(summing(3, 1000, 100000), {{"measure", value(int64_t{2})}, {"least_gain", value(0.05)}});
  EXPECT_EQ(told.steps(0.1, {0.002, 0.002}), 0);
  EXPECT_EQ(told.kept(), "");
}

// Whatever is exposed: the peak stays within the budget, and nothing that is kept is worth less than what could have
// been kept in its place.
TEST(Adaptive, KeepsTheBudgetWhateverIsMeasured) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 200; ++round) {
    const int blocks = static_cast<int>(random() % 20);
    Problem problem = toy(blocks);
    for (ProblemUnit& unit : problem.units)
      unit.bytes = static_cast<int64_t>(random() % 5) * 64 * static_cast<int64_t>(random() % 9);
    const int64_t base = 1000, budget = base + static_cast<int64_t>(random() % 20000);
    const std::vector<ProblemUnit> units = problem.units;
    const auto peak = [units](const Answers& given) {
      int64_t bytes = base;
      for (std::size_t i = 0; i < given.units.size(); ++i)  // a unit's bytes count for half of it
        if (given.units[i].after_forward == AfterForward::keep()) bytes += units[i].bytes / 2;
      return bytes;
    };
    problem.budget_bytes = budget;
    problem.predicted_peak = peak;
    std::vector<double> exposed;
    for (std::size_t u = 0; u < units.size(); ++u) exposed.push_back(static_cast<double>(random() % 100) * 1e-3);
    exposed[0] = 1;
    StrategyInstance instance = Strategy::load(shipped("adaptive")).create({{"measure", value(int64_t{1})}});
    StepSummary step;
    step.seconds = 1;
    for (const double seconds : exposed) step.units.push_back({0, seconds, 0, 1});
    ASSERT_TRUE(instance.tell(step));
    const Answers answers = instance.decide(problem);
    EXPECT_LE(peak(answers), budget);
    for (std::size_t u = 0; u < units.size(); ++u) {
      const bool kept = answers.units[u].after_forward == AfterForward::keep();
      EXPECT_TRUE(!kept || (exposed[u] > 0 && units[u].bytes > 0)) << units[u].name;
      if (!kept && exposed[u] > 0 && units[u].bytes > 0) {
        EXPECT_GT(peak(answers) + units[u].bytes, budget) << units[u].name << " would fit";
      }
    }
  }
}

}  // namespace
}  // namespace reshard::plugin
