// Property, over random trees, ranks 1 to 4 and overlap on and off: the strategies themselves, as loaded plugins, leave
// the bits that a single process leaves that adds in their own order, and those that reduce at the same points leave
// the same bits as one another.

#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/planning.h"
#include "tests/engine/reference.h"
#include "tests/property/player.h"
#include "tests/schedule/random_program.h"

namespace reshard::property {
namespace {

constexpr int kSteps = 3;

struct Trained {
  toy::Values values;
  std::vector<double> norms, losses;
  bool operator==(const Trained&) const = default;
};

// One way to train: a strategy, perhaps with options, perhaps with the user's word over all units.
struct Way {
  std::string name, strategy;
  OptionValues options = {};
  std::vector<UnitOverride> units = {};
  int shard_over = 0;  // 0: not given
};

class Strategies : public testing::TestWithParam<std::tuple<int, bool, int>> {
 protected:
  Strategies() : dice_(static_cast<uint64_t>(std::get<2>(GetParam()))), model_(schedule::random_model(dice_, 10, 300)) {
    ranks_ = std::get<0>(GetParam());
  }

  Job job(const Way& way, int microbatches) const {
    Job job = toy::job(ranks_, way.strategy, microbatches, std::get<1>(GetParam()));
    if (!way.options.empty()) job.strategy.options[way.strategy] = way.options;
    job.strategy.units = way.units;
    if (way.shard_over > 0) job.strategy.shard_over = way.shard_over;
    return job;
  }

  engine::PlannedStrategy planned(const Way& way, int microbatches) const {
    const Job wanted = job(way, microbatches);
    return engine::plan_strategy(wanted, model_, engine::chosen_strategy(wanted), 2);
  }

  HookCalls calls(int microbatches) const {
    return schedule::declared_calls(model_, schedule::plain_step(model_, 1, 1, microbatches, {}));
  }

  Trained train(const Way& way, int microbatches) const {
    Trained trained;
    const Job wanted = job(way, microbatches);
    const HookCalls step = calls(microbatches);
    launch(wanted, [&](Rank& rank) {
      Runtime runtime(wanted, model_, rank);
      toy::fill(runtime);
      Trained mine;
      for (int s = 0; s < kSteps; ++s) {
        const StepResult result = Player(runtime, nullptr, step, Style::closures).step(true).value();
        mine.norms.push_back(result.gradient_norm);
        mine.losses.push_back(result.loss);
      }
      mine.values = toy::read_all(runtime);
      if (rank.first()) trained = std::move(mine);
    });
    return trained;
  }

  Trained single_process(const Way& way, int microbatches) const {
    const Job wanted = job(way, microbatches);
    const Plan plan = planned(way, microbatches).plan;
    toy::Reference reference(wanted, model_);
    Trained trained;
    for (int s = 0; s < kSteps; ++s) {
      const auto [norm, loss] = reference.step(s, plan, calls(microbatches));
      trained.norms.push_back(norm);
      trained.losses.push_back(loss);
    }
    trained.values = std::move(reference.values);
    return trained;
  }

  static UnitOverride every_unit(std::optional<AfterForward> forward, std::optional<AfterBackward> backward) {
    UnitOverride entry;
    entry.match = "*";
    if (forward) entry.after_forward = Given<AfterForward>{*forward, "test", {}};
    if (backward) entry.after_backward = Given<AfterBackward>{*backward, "test", {}};
    return entry;
  }

  schedule::Dice dice_;
  Model model_;
  int ranks_ = 1;
};

TEST_P(Strategies, EachEqualsASingleProcessInItsOwnOrder) {
  for (const char* strategy : {"zero1", "replicate", "zero3"})
    EXPECT_TRUE(train({strategy, strategy}, 4) == single_process({strategy, strategy}, 4)) << strategy;
}

TEST_P(Strategies, ThoseThatReduceAtTheSamePointsLeaveTheSameBits) {
  const Trained expected = train({"zero3", "zero3"}, 4);
  std::vector<Way> ways{
      {"zero2", "zero2"},
      {"zero2, free between micro-batches", "zero2", {{"between_microbatches", {std::string("free"), "test"}}}},
      {"root_no_reshard", "root_no_reshard"},
      {"kept after backward", "zero3", {}, {every_unit({}, AfterBackward::keep)}},
      {"one unit kept", "zero3", {}, {every_unit(AfterForward::keep(), {})}},
  };
  ways.back().units[0].match = model_.name({model_.unit_count() - 1});
  if (ranks_ == 4) {
    ways.push_back({"shrunk", "zero3", {}, {every_unit(AfterForward::shrink(2), {})}});
    ways.push_back({"sharded over 2 of 4", "zero3", {}, {}, 2});
    ways.push_back({"sharded over 1 of 4", "zero3", {}, {}, 1});
  }
  for (const Way& way : ways) EXPECT_TRUE(train(way, 4) == expected) << way.name;
}

TEST_P(Strategies, AtOneMicroBatchAllLeaveTheSameBits) {
  const Trained expected = train({"zero3", "zero3"}, 1);
  for (const char* strategy : {"zero1", "zero2", "root_no_reshard", "replicate"})
    EXPECT_TRUE(train({strategy, strategy}, 1) == expected) << strategy;
}

INSTANTIATE_TEST_SUITE_P(All, Strategies,
                         testing::Combine(testing::Values(1, 2, 3, 4), testing::Bool(), testing::Range(0, 5)),
                         [](const auto& one) {
                           return fmt::format("ranks_{}_{}_seed_{}", std::get<0>(one.param),
                                              std::get<1>(one.param) ? "overlap" : "inline", std::get<2>(one.param));
                         });

}  // namespace
}  // namespace reshard::property
