// The strategies that come with Reshard, through the whole way: file, table, options, answers. What each one decides is
// design.md's table; that a decision is carried out is the scheduler's business.

#include "plugin/strategy.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/plugin/files.h"
#include "tests/plugin/problem.h"

namespace reshard::plugin {
namespace {

using tests::decided;
using tests::error_text;
using tests::shipped;
using tests::text;
using tests::toy;
using tests::value;

TEST(Shipped, EachDecidesItsRowOfTheTable) {
  EXPECT_EQ(decided("replicate", {}),
            "shard_over 1: every rank holds the whole model\n"
            "root keep/keep/last 1 1: always whole; gradients exchanged once per step\n"
            "h.0 keep/keep/last 1 1: always whole; gradients exchanged once per step\n"
            "lm_head keep/keep/last 1 1: always whole; gradients exchanged once per step\n");
  EXPECT_EQ(decided("zero1", {}),
            "root keep/keep/last 1 1: gathered and reduced once per step\n"
            "h.0 keep/keep/last 1 1: gathered and reduced once per step\n"
            "lm_head keep/keep/last 1 1: gathered and reduced once per step\n");
  EXPECT_EQ(decided("zero2", {}),
            "root keep/keep/each 1 1: gathered once per step\n"
            "h.0 keep/keep/each 1 1: gathered once per step\n"
            "lm_head keep/keep/each 1 1: gathered once per step\n");
  EXPECT_EQ(decided("zero2", {{"between_microbatches", value(std::string("free"))}}),
            "root keep/free/each 1 1: gathered once per micro-batch, freed by its backward\n"
            "h.0 keep/free/each 1 1: gathered once per micro-batch, freed by its backward\n"
            "lm_head keep/free/each 1 1: gathered once per micro-batch, freed by its backward\n");
  EXPECT_EQ(decided("zero3", {{"prefetch_forward", value(int64_t{0})}, {"prefetch_backward", value(int64_t{8})}}),
            "root free/free/each 0 8: whole only while it is used\n"
            "h.0 free/free/each 0 8: whole only while it is used\n"
            "lm_head free/free/each 0 8: whole only while it is used\n");
  EXPECT_EQ(decided("root_no_reshard", {}),
            "root keep/free/each 1 1: root is used first in backward\n"
            "h.0 free/free/each 1 1: whole only while it is used\n"
            "lm_head free/free/each 1 1: whole only while it is used\n");
}

TEST(Shipped, RootNoReshardKeepsWhatItsOptionNames) {
  const auto also = [](std::vector<std::string> names) {
    OptionValue::List items;
    for (std::size_t i = 0; i < names.size(); ++i)
      items.push_back(value(names[i], "job.toml:9:" + std::to_string(10 * (i + 1))));
    return OptionValues{{"also", value(std::move(items))}};
  };
  EXPECT_EQ(decided("root_no_reshard", also({"lm_head", "h.?"}), 12), [] {
    std::string all = "root keep/free/each 1 1: root is used first in backward\n";
    for (int i = 0; i < 12; ++i)
      all += "h." + std::to_string(i) +
             (i < 10 ? " keep/free/each 1 1: kept because `also` names it\n"
                     : " free/free/each 1 1: whole only while it is used\n");
    return all + "lm_head keep/free/each 1 1: kept because `also` names it\n";
  }());
  EXPECT_EQ(error_text([&] {
              decided("root_no_reshard", also({"h.*", "lm_hed"}));
            }),
            "config: job.toml:9:20: strategy.options.root_no_reshard.also[1]: no unit matches \"lm_hed\"");
}

TEST(Shipped, AllDescribeThemselves) {
  for (const char* name : tests::kShipped) {
    const Strategy strategy = Strategy::load(shipped(name));
    const StrategyInfo& info = strategy.info();
    EXPECT_EQ(info.name, name);
    EXPECT_EQ(info.version, "1.0.0");
    EXPECT_EQ(info.vendor, "Reshard");
    EXPECT_EQ(info.abi, "1.0");
    EXPECT_EQ(info.required_abi, "1.0");
    EXPECT_EQ(info.file, shipped(name));
    EXPECT_FALSE(info.summary.empty());
    EXPECT_TRUE(info.build.starts_with("C++ ")) << info.build;
    EXPECT_GE(info.options.size(), 2u);
    for (const OptionInfo& option : info.options) {
      EXPECT_FALSE(option.doc.empty()) << option.name;
      if (option.name.starts_with("prefetch_")) {
        EXPECT_EQ(option.type + " " + option.fallback + " " + option.range, "integer 1 0 … 8");
      }
    }
  }
}

TEST(Shipped, OptionsAreCheckedAgainstTheTableOfThePlugin) {
  EXPECT_EQ(error_text([] {
              decided("zero3", {{"prefetch_forward", value(int64_t{9}, "job.toml:14:12")}});
            }),
            "config: job.toml:14:12: strategy.options.zero3.prefetch_forward is 9, outside 0 … 8");
  EXPECT_EQ(error_text([] {
              decided("zero3", {{"prefetch_foward", value(int64_t{1}, "job.toml:14:1")}});
            }),
            "config: job.toml:14:1: strategy.options.zero3.prefetch_foward: zero3 has no such option (did you mean "
            "\"prefetch_forward\"?)");
  const StrategyInstance instance = Strategy::load(shipped("zero2")).create({{"prefetch_forward", value(int64_t{3})}});
  std::string all;
  for (const auto& [name, text] : instance.options()) all += name + " = " + text + "\n";
  EXPECT_EQ(all, "between_microbatches = \"keep\"\nprefetch_backward = 1\nprefetch_forward = 3\n");
}

// The same problem gives the same answers on every instance and thread, whatever else is loaded and ended meanwhile.
TEST(Shipped, ManyInstancesDecideAtOnce) {
  const Problem problem = toy(20);
  const std::string expected = text(problem, Strategy::load(shipped("zero3")).create({}).decide(problem));
  std::atomic<int> wrong{0};
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 4; ++rank)
    ranks.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        const Strategy strategy = Strategy::load(shipped("zero3"));
        if (text(problem, strategy.create({}).decide(problem)) != expected) ++wrong;
      }
    });
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Shipped, ToyProblemsAreAnswered) {
  for (const char* name : tests::kShipped) {
    StrategyInstance instance = Strategy::load(shipped(name)).create({});
    const auto answered = [&](Problem problem) {
      problem.budget_bytes = 1 << 20;
      problem.predicted_peak = [](const Answers&) { return 1 << 19; };
      return instance.decide(problem).units.size();
    };
    Problem problem = toy(0);
    EXPECT_EQ(answered(problem), 2u);
    problem.units.resize(1), problem.ranks = problem.ranks_per_node = 1;
    EXPECT_EQ(answered(problem), 1u);
    problem.units.clear();
    EXPECT_EQ(answered(problem), 0u);
    EXPECT_EQ(answered(toy(5000)), 5002u);
  }
}

// A strategy in C asks the predicted peak, takes back an answer and gives another.
TEST(PlainC, AnswersAreTakenBackAndThePeakIsAsked) {
  Problem problem = toy(2);
  std::string asked;
  problem.predicted_peak = [&](const Answers& answers) {
    asked += text(problem, answers);
    int64_t peak = 1000;
    for (std::size_t i = 0; i < answers.units.size(); ++i)
      if (answers.units[i].after_forward == AfterForward::keep()) peak += problem.units[i].bytes;
    return peak;
  };
  problem.budget_bytes = 1000 + 4096 + 1024 + 2048;
  const Strategy strategy = Strategy::load(std::string(RESHARD_BINARY_DIR) + "/tests/sdk/c_keep.so");
  EXPECT_EQ(text(problem, strategy.create({}).decide(problem)),
            "all_reduce last\n"
            "root keep/-/- - -: fits the budget\n"
            "h.0 keep/-/- - -: fits the budget\n"
            "h.1 keep/-/- - -: fits the budget\n"
            "lm_head 2/-/- - 0: does not fit\n");
  EXPECT_NE(asked.find("lm_head keep/-/- - -: fits the budget\n"), std::string::npos);  // it was asked for, too
  problem.predicted_peak = nullptr;
  EXPECT_EQ(error_text([&] { strategy.create({}).decide(problem); }),
            "plan: strategy c_keep cannot serve this job: it needs to know the peak");
  problem.predicted_peak = [](const Answers&) -> int64_t { throw Error(ErrorCode::model, "too many units"); };
  EXPECT_EQ(error_text([&] { strategy.create({}).decide(problem); }), "model: too many units");
}

// Every kind of option arrives as what it is, given or not.
TEST(Wrapper, EveryKindOfOptionArrives) {
  const Strategy strategy = Strategy::load(std::string(RESHARD_BINARY_DIR) + "/tests/sdk/every_option.so");
  std::string table;
  for (const OptionInfo& option : strategy.info().options)
    table += option.name + " " + option.type + " " + (option.required ? "required" : option.fallback) + " " +
             option.range + "\n";
  EXPECT_EQ(table,
            "choice choice \"slow\" \"slow\", \"fast\" or \"none\"\n"
            "flag bool true false or true\n"
            "large integer -5 at least -9223372036854775807\n"
            "names list of text [\"a\", \"b\"] \n"
            "path text required \n"
            "ratio real 0.25 0.0 … 1.0\n"
            "reserve bytes \"2 GiB\" at least 0\n"
            "signed integer 0 -2147483648 … 2147483647\n"
            "small integer 3 0 … 4294967295\n");
  Problem problem = toy(0);
  problem.budget_bytes = 99;
  EXPECT_EQ(text(problem, strategy.create({{"path", value(std::string("/x"))}}).decide(problem)),
            "shard_over 2: 4 ranks, 2 per node, 2 micro-batches, budget 99, seed 7, 2 units; all set\n"
            "all_reduce each\n"
            "root -/-/- - -: choice=slow flag=1 large=-5 names=a,b path=/x ratio=0.250000 reserve=2147483648 signed=0 "
            "small=3\n"
            "lm_head 3/keep/last 2 5: parent 0, 1048576 bytes\n");
  const OptionValues all = {
      {"choice", value(std::string("none"))},     {"flag", value(false)},
      {"large", value(int64_t{1} << 40)},         {"names", value(OptionValue::List{value(std::string("ü\"x"))})},
      {"path", value(std::string(""))},           {"ratio", value(int64_t{1})},
      {"reserve", value(std::string("1.5 KiB"))}, {"signed", value(int64_t{-2147483648})},
      {"small", value(int64_t{4294967295})}};
  EXPECT_NE(text(problem, strategy.create(all).decide(problem))
                .find("choice=none flag=0 large=1099511627776 names=ü\"x path= ratio=1.000000 reserve=1536 "
                      "signed=-2147483648 small=4294967295\n"),
            std::string::npos);
  EXPECT_EQ(error_text([&] { strategy.create({}, "job.toml:4:1"); }),
            "config: job.toml:4:1: strategy.options.every_option.path is missing; every_option needs it (set it: text, "
            "any text)");
}

}  // namespace
}  // namespace reshard::plugin
