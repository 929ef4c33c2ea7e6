// The shipped strategies that choose by the problem: by its nodes (node_reshard, hybrid), by the order of its backward
// (keep_last), by its budget (byte_budget).

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include <fmt/format.h>

#include "plugin/strategy.h"
#include "tests/plugin/files.h"
#include "tests/plugin/problem.h"

namespace reshard::plugin {
namespace {

using tests::answers;
using tests::error_text;
using tests::shipped;
using tests::toy;
using tests::value;

Problem on(int ranks, int per_node, int blocks = 0) {
  Problem problem = toy(blocks);
  problem.ranks = ranks, problem.ranks_per_node = per_node;
  return problem;
}

// The same line for the root and the head of toy(0).
std::string both(const std::string& line) {
  return "root " + line + "\nlm_head " + line + "\n";
}

TEST(NodeReshard, ShrinksToTheRanksOfANode) {
  EXPECT_EQ(answers(on(8, 4), "node_reshard"),
            both("4/free/each 1 1: shrunk to a node = 4 of 8 ranks: the backward's gather stays among them"));
  EXPECT_EQ(answers(on(8, 4), "node_reshard", {{"ranks", value(int64_t{2})}, {"prefetch_backward", value(int64_t{3})}}),
            both("2/free/each 1 3: shrunk to `ranks` = 2 of 8 ranks: the backward's gather stays among them"));
}

TEST(NodeReshard, TheTwoEndsAreKeepAndFree) {
  EXPECT_EQ(answers(on(8, 1), "node_reshard"),
            both("keep/free/each 1 1: a node is one rank: shrinking to it keeps the unit whole"));
  EXPECT_EQ(answers(on(7, 7), "node_reshard"),
            both("free/free/each 1 1: a node is all 7 ranks: shrinking to it frees the unit"));
  EXPECT_EQ(answers(on(8, 4), "node_reshard", {{"ranks", value(int64_t{8})}}),
            both("free/free/each 1 1: `ranks` is all 8 ranks: shrinking to it frees the unit"));
  EXPECT_EQ(answers(on(1, 1), "node_reshard"),
            both("keep/free/each 1 1: a node is one rank: shrinking to it keeps the unit whole"));
}

TEST(NodeReshard, RanksThatDoNotDivideAreAnErrorAtTheirLine) {
  EXPECT_EQ(
      error_text([] {
        answers(on(6, 3), "node_reshard", {{"ranks", value(int64_t{4}, "job.toml:9:9")}});
      }),
      "config: job.toml:9:9: strategy.options.node_reshard.ranks: 4 does not divide the 6 ranks; use 0 (the ranks "
      "of a node) or one of 1, 2, 3 and 6");
  EXPECT_EQ(error_text([] {
              answers(on(7, 7), "node_reshard", {{"ranks", value(int64_t{14}, "job.toml:9:9")}});
            }),
            "config: job.toml:9:9: strategy.options.node_reshard.ranks: 14 does not divide the 7 ranks; use 0 (the "
            "ranks of a node) or one of 1 and 7");
}

TEST(Hybrid, ShardsInsideANodeAndReplicatesBetweenNodes) {
  EXPECT_EQ(answers(on(8, 4), "hybrid"),
            "shard_over 4: sharded over a node = 4 ranks, 2 replicas; replicas exchange in every micro-batch\n"
            "all_reduce each\n" +
                both("free/free/each 1 1: whole only while it is used"));
  EXPECT_EQ(answers(on(6, 6), "hybrid",
                    {{"shard_over", value(int64_t{3})},
                     {"all_reduce", value(std::string("last"))},
                     {"after_forward", value(std::string("keep"))}}),
            "shard_over 3: sharded over `shard_over` = 3 ranks, 2 replicas; replicas exchange once per step\n"
            "all_reduce last\n" +
                both("keep/free/each 1 1: gathered in its group once per micro-batch"));
  EXPECT_EQ(answers(on(5, 1), "hybrid"),
            "shard_over 1: sharded over a node = 1 ranks, 5 replicas; replicas exchange in every micro-batch\n"
            "all_reduce each\n" +
                both("free/free/each 1 1: whole only while it is used"));
}

TEST(Hybrid, OneGroupHasNoReplicasToExchange) {
  EXPECT_EQ(answers(on(7, 7), "hybrid", {{"all_reduce", value(std::string("last"))}}),
            "shard_over 7: a node is all 7 ranks: there are no replicas\n" +
                both("free/free/each 1 1: whole only while it is used"));
}

TEST(Hybrid, RanksThatDoNotDivideAreAnErrorAtTheirLine) {
  EXPECT_EQ(error_text([] {
              answers(on(8, 4), "hybrid", {{"shard_over", value(int64_t{3}, "job.toml:9:9")}});
            }),
            "config: job.toml:9:9: strategy.options.hybrid.shard_over: 3 does not divide the 8 ranks; use 0 (the ranks "
            "of a node) or one of 1, 2, 4 and 8");
}

// Two blocks of two parts each, the second part without parameters; the root owns some.
Problem nested() {
  Problem problem = toy(0);
  problem.units.pop_back();
  const auto add = [&](const std::string& name, int parent, int64_t bytes) {
    ProblemUnit unit;
    unit.name = name, unit.parent = parent, unit.bytes = bytes;
    problem.units.push_back(unit);
  };
  add("a", 0, 1000), add("b", 0, 2000), add("a.in", 1, 300), add("b.in", 2, 400), add("b.none", 2, 0);
  return problem;
}

// The names of what is kept, in declared order.
std::string kept(const Problem& problem, const std::string& strategy, const OptionValues& options = {}) {
  const Answers given = Strategy::load(shipped(strategy)).create(options).decide(problem);
  std::string names;
  for (std::size_t i = 0; i < given.units.size(); ++i)
    if (given.units[i].after_forward == AfterForward::keep())
      names += (names.empty() ? "" : " ") + problem.units[i].name;
  return names;
}

TEST(KeepLast, KeepsInTheOrderOfTheBackward) {
  const auto by = [](int64_t units) { return kept(nested(), "keep_last", {{"units", value(units)}}); };
  EXPECT_EQ(by(0), "");
  EXPECT_EQ(by(1), "root");
  EXPECT_EQ(by(2), "root b");
  EXPECT_EQ(by(3), "root b b.in");
  EXPECT_EQ(by(4), "root a b b.in");
  EXPECT_EQ(by(5), "root a b a.in b.in");
  EXPECT_EQ(by(1000), "root a b a.in b.in");
  EXPECT_EQ(kept(nested(), "keep_last"), "root b");
}

TEST(KeepLast, AsManyAsFitIntoItsBytes) {
  const auto by = [](const std::string& bytes) {
    return kept(nested(), "keep_last", {{"bytes", value(bytes)}, {"units", value(int64_t{0})}});
  };
  EXPECT_EQ(by("4095 B"), "");  // the root's 4096 do not, and the run ends there
  EXPECT_EQ(by("4096 B"), "root");
  EXPECT_EQ(by("6495 B"), "root b");
  EXPECT_EQ(by("6496 B"), "root b b.in");
  EXPECT_EQ(by("1 GiB"), "root a b a.in b.in");
}

TEST(KeepLast, SaysWhy) {
  EXPECT_EQ(tests::decided("keep_last", {}),
            "root keep/free/each 1 1: kept: among the first 2 in backward, 1 MiB\n"
            "h.0 free/free/each 1 1: freed: not among the first 2 in backward, 1 MiB\n"
            "lm_head keep/free/each 1 1: kept: among the first 2 in backward, 1 MiB\n");
  EXPECT_EQ(tests::decided("keep_last", {{"bytes", value(std::string("5 KiB"))}}),
            "root keep/free/each 1 1: kept: among the first 1 in backward, 4 KiB of `bytes` = 5 KiB\n"
            "h.0 free/free/each 1 1: freed: not among the first 1 in backward, 4 KiB of `bytes` = 5 KiB\n"
            "lm_head free/free/each 1 1: freed: not among the first 1 in backward, 4 KiB of `bytes` = 5 KiB\n");
  EXPECT_EQ(answers(on(1, 1), "keep_last", {{"units", value(int64_t{0})}}),
            both("free/free/each 1 1: freed: not among the first 0 in backward, 0 B"));
}

// A host whose peak is `base` and, for each kept unit, its part of its bytes.
struct Peaks {
  int64_t base = 0;
  std::vector<double> parts;  // of a unit's bytes; 1 where it is shorter
  int questions = 0;

  int64_t cost(const Problem& problem, std::size_t unit) const {
    const double part = unit < parts.size() ? parts[unit] : 1;
    return static_cast<int64_t>(part * static_cast<double>(problem.units[unit].bytes));
  }
  void answer(Problem& problem) {
    problem.predicted_peak = [this, &problem](const Answers& given) {
      ++questions;
      int64_t peak = base;
      for (std::size_t i = 0; i < given.units.size(); ++i)
        if (given.units[i].after_forward == AfterForward::keep()) peak += cost(problem, i);
      return peak;
    };
  }
};

TEST(ByteBudget, NeedsABudgetAndRoomInIt) {
  Problem problem = toy(1);
  EXPECT_EQ(error_text([&] { answers(problem, "byte_budget"); }),
            "plan: strategy byte_budget cannot serve this job: memory.budget is not set, and it keeps units as far as "
            "that budget goes; set it, as in [memory] budget = \"2 GiB\"");
  problem.budget_bytes = 5000;
  EXPECT_EQ(error_text([&] { answers(problem, "byte_budget"); }),
            "plan: strategy byte_budget cannot serve this job: this host cannot predict the peak, without which no "
            "budget can be kept");
  Peaks peaks{5001, {}, 0};
  peaks.answer(problem);
  EXPECT_EQ(error_text([&] { answers(problem, "byte_budget"); }),
            "plan: strategy byte_budget cannot serve this job: memory.budget is 4.88 KiB, and before it keeps any unit "
            "the predicted peak is 4.88 KiB per rank, 1 B more; use more ranks or smaller micro-batches, or raise the "
            "budget");
}

TEST(ByteBudget, KeepsWhatSavesMostExposedTimePerByte) {
  Problem problem = toy(3);  // in backward: root, lm_head, h.2, h.1, h.0
  Peaks peaks{1000, {}, 0};
  peaks.answer(problem);
  const auto set = [&](std::size_t unit, double seconds, double flops) {
    problem.units[unit].seconds_gather = seconds, problem.units[unit].flops_backward = flops;
  };
  // 4096 B, 1 KiB, 2 KiB, 3 KiB, 1 MiB
  set(0, 4e-3, 1e6), set(1, 3.5e-3, 0), set(2, 2e-3, 2e6), set(3, 9e-3, 2e6), set(4, 2.5e-3, 5e6);
  const OptionValues speed{{"flops_per_second", value(1e9)}};
  // Exposed: root 4 - 0, lm_head 2.5 - 1, h.2 9 - 5, h.1 2 - 2 = 0, h.0 3.5 - 2 ms.
  problem.budget_bytes = 1000 + 4096 + 3072 + 1024;
  EXPECT_EQ(answers(problem, "byte_budget", speed),
            "root keep/free/each 1 1: kept: saves 4 ms of exposed gather for 4 KiB; peak 8.98 KiB of budget 8.98 KiB\n"
            "h.0 keep/free/each 1 1: kept: saves 1.5 ms of exposed gather for 1 KiB; peak 8.98 KiB of budget 8.98 KiB\n"
            "h.1 free/free/each 1 1: freed: its 2 KiB exceed the 0 B left; peak 8.98 KiB of budget 8.98 KiB\n"
            "h.2 keep/free/each 1 1: kept: saves 4 ms of exposed gather for 3 KiB; peak 8.98 KiB of budget 8.98 KiB\n"
            "lm_head free/free/each 1 1: freed: its 1 MiB exceed the 0 B left; peak 8.98 KiB of budget 8.98 KiB\n");
  // One byte less, and of those the one that is worth least goes; what fits into its place comes.
  --problem.budget_bytes;
  EXPECT_EQ(kept(problem, "byte_budget", speed), "h.0 h.1 h.2");
  problem.budget_bytes = 1000 + (1 << 20) + 4096 + 1024 + 2048 + 3072;
  EXPECT_EQ(kept(problem, "byte_budget", speed), "root h.0 h.1 h.2 lm_head");
  EXPECT_NE(answers(problem, "byte_budget", speed).find("h.1 keep/free/each 1 1: kept: saves a hidden gather of 2 ms"),
            std::string::npos);
  // Without prefetching nothing is hidden: h.1 saves 2 ms for 2 KiB.
  problem.budget_bytes = 1000 + 3072 + 1024 + 2048;
  EXPECT_EQ(kept(problem, "byte_budget", {{"flops_per_second", value(1e9)}, {"prefetch_backward", value(int64_t{0})}}),
            "h.0 h.1 h.2");
}

TEST(ByteBudget, EstimatesWhatTheHostDoesNotKnow) {
  Problem problem = toy(1);
  Peaks peaks;
  peaks.answer(problem);
  problem.budget_bytes = 1 << 30;
  // (N-1)/N of 1 MiB at 1 MiB per second, and the latency; the root's 4 KiB and h.0's 1 KiB alike.
  EXPECT_EQ(
      answers(problem, "byte_budget", {{"bytes_per_second", value(std::string("1 MiB"))}, {"latency", value(0.25)}}),
      "root keep/free/each 1 1: kept: saves 253 ms of exposed gather for 4 KiB; peak 1 MiB of budget 1 GiB\n"
      "h.0 keep/free/each 1 1: kept: saves 251 ms of exposed gather for 1 KiB; peak 1 MiB of budget 1 GiB\n"
      "lm_head keep/free/each 1 1: kept: saves 1 s of exposed gather for 1 MiB; peak 1 MiB of budget 1 "
      "GiB\n");
}

TEST(ByteBudget, OfEqualsTheOneThatBackwardNeedsFirstIsKept) {
  Problem problem = toy(6);
  for (ProblemUnit& unit : problem.units) unit.bytes = unit.root ? 0 : 1000;
  Peaks peaks;
  peaks.answer(problem);
  problem.budget_bytes = 3500;
  EXPECT_EQ(kept(problem, "byte_budget"), "h.4 h.5 lm_head");
  EXPECT_TRUE(answers(problem, "byte_budget").starts_with("root free/free/each 1 1: owns no parameters\n"));
}

TEST(ByteBudget, OneRankHasNothingToGather) {
  Problem problem = on(1, 1);
  Peaks peaks;
  peaks.answer(problem);
  problem.budget_bytes = 1 << 30;
  EXPECT_EQ(answers(problem, "byte_budget"), both("free/free/each 1 1: one rank gathers nothing"));
}

// Property: what the search finds with few questions is what asking for every unit in turn finds, whatever part of its
// bytes a kept unit costs at the peak.
TEST(ByteBudget, FindsWhatAskingForEveryUnitFinds) {
  std::mt19937_64 random(11);
  const auto roll = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  for (int round = 0; round < 300; ++round) {
    Problem problem = toy(static_cast<int>(roll(0, 14)));
    Peaks peaks{roll(0, 1000), {}, 0};
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < problem.units.size(); ++i) {
      problem.units[i].bytes = roll(1, 4) * 100;
      problem.units[i].seconds_gather = static_cast<double>(roll(1, 1000)) * 1e-3;  // worth is as good as never equal
      peaks.parts.push_back(static_cast<double>(roll(0, 4)) / 4);
      order.push_back(i);
    }
    peaks.answer(problem);
    problem.budget_bytes = peaks.base + roll(1, 2000);
    const auto worth = [&](std::size_t i) {
      return problem.units[i].seconds_gather / static_cast<double>(problem.units[i].bytes);
    };
    std::vector<std::size_t> backward{0};
    for (std::size_t i = order.size() - 1; i > 0; --i) backward.push_back(i);
    std::stable_sort(backward.begin(), backward.end(),
                     [&](std::size_t a, std::size_t b) { return worth(a) > worth(b); });
    int64_t peak = peaks.base;
    std::vector<bool> expected(order.size());
    for (const std::size_t i : backward)
      if (peak + peaks.cost(problem, i) <= problem.budget_bytes) peak += peaks.cost(problem, i), expected[i] = true;
    std::string names;
    for (const std::size_t i : order)
      if (expected[i]) names += (names.empty() ? "" : " ") + problem.units[i].name;
    EXPECT_EQ(kept(problem, "byte_budget"), names) << "round " << round;
    EXPECT_LE(peaks.questions, 50) << "round " << round;
  }
}

// Ten thousand units of all sizes, of which the search cannot ask for each: few questions, a budget that is kept, and
// no room left that a freed unit would fit into by its bytes.
TEST(ByteBudget, AsksFewQuestionsHoweverManyUnits) {
  Problem problem = toy(10000);
  Peaks peaks{1 << 20, {}, 0};
  std::mt19937_64 random(5);
  int64_t all = 0;
  for (std::size_t i = 0; i < problem.units.size(); ++i) {
    peaks.parts.push_back(static_cast<double>(random() % 5) / 4);
    problem.units[i].bytes = 1 + static_cast<int64_t>(random() % 100000);
    all += problem.units[i].bytes;
  }
  peaks.answer(problem);
  for (const int64_t budget : {all / 100, all / 3, all}) {
    peaks.questions = 0;
    problem.budget_bytes = peaks.base + budget;
    const Answers given = Strategy::load(shipped("byte_budget")).create({}).decide(problem);
    EXPECT_LE(peaks.questions, 80) << budget;
    const int64_t peak = problem.predicted_peak(given);
    EXPECT_LE(peak, problem.budget_bytes);
    int freed = 0;
    for (std::size_t i = 0; i < given.units.size(); ++i) {
      if (given.units[i].after_forward == AfterForward::keep()) continue;
      ++freed;
      EXPECT_GT(problem.units[i].bytes, problem.budget_bytes - peak) << problem.units[i].name;
    }
    EXPECT_EQ(freed > 0, budget < all);
  }
}

// A host by whose count a unit costs more than its bytes gets a plan within the budget all the same.
TEST(ByteBudget, TrustsTheHostMoreThanTheBytes) {
  Problem problem = toy(200);
  for (ProblemUnit& unit : problem.units) unit.bytes = 100;
  Peaks peaks;
  peaks.parts.assign(problem.units.size(), 3);
  peaks.answer(problem);
  for (const int64_t budget : {50, 299, 300, 10000, 200 * 300}) {
    problem.budget_bytes = budget;
    const Answers given = Strategy::load(shipped("byte_budget")).create({}).decide(problem);
    EXPECT_LE(problem.predicted_peak(given), budget);
    EXPECT_GT(problem.predicted_peak(given), budget - 300);
  }
}

}  // namespace
}  // namespace reshard::plugin
