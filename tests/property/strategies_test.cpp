// Property, over random trees, ranks 1 to 4 and overlap on and off: the strategies themselves, as loaded plugins, leave
// the bits that a single process leaves that adds in their own order, and those that reduce at the same points leave
// the same bits as one another.

#include <algorithm>
#include <bit>
#include <chrono>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/math.h"
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
  int ranks_per_node = 0;
  int64_t budget = 0;
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
    job.mesh.ranks_per_node = way.ranks_per_node;
    job.memory.budget = way.budget;
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
      const Report report = runtime.report();
      EXPECT_EQ(report.measured.total(), report.predicted.total()) << way.name;
      if (way.budget > 0) {
        EXPECT_LE(report.measured.total(), way.budget) << way.name;
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

// Those that choose by nodes, by the order of the backward or by the budget: they move other bytes at other times.
class Choosers : public Strategies {};

TEST_P(Choosers, LeaveTheBitsOfZero3) {
  for (const int microbatches : {1, 4}) {
    const Way zero3{"zero3", "zero3"};
    const Trained expected = train(zero3, microbatches);
    const int64_t least = planned(zero3, microbatches).peak.total();
    const int64_t most =
        planned({"zero2", "zero2", {{"between_microbatches", {std::string("free"), "test"}}}}, microbatches)
            .peak.total();
    std::vector<Way> ways{
        {"keep_last", "keep_last"},
        {"keep_last, by bytes", "keep_last", {{"bytes", {int64_t{5000}, "test"}}}},
        {"byte_budget without room", "byte_budget", {}, {}, 0, 0, least},
        {"byte_budget with some", "byte_budget", {}, {}, 0, 0, (least + most) / 2},
        {"byte_budget with enough", "byte_budget", {}, {}, 0, 0, most},
        {"adaptive", "adaptive", {{"measure", {int64_t{1}, "test"}}, {"least_gain", {0.0, "test"}}}, {}, 0, 0, most},
    };
    for (const int node : base::divisors(ranks_)) {
      ways.push_back({fmt::format("node_reshard, nodes of {}", node), "node_reshard", {}, {}, 0, node});
      if (std::has_single_bit(static_cast<unsigned>(node)))
        ways.push_back({fmt::format("hybrid, nodes of {}", node), "hybrid", {}, {}, 0, node});
    }
    for (const Way& way : ways)
      EXPECT_TRUE(train(way, microbatches) == expected) << way.name << ", " << microbatches << " micro-batches";
  }
}

// Other orders of adding are those of a single process that adds in them.
TEST_P(Choosers, HybridEqualsASingleProcessInItsOwnOrder) {
  for (const int shards : base::divisors(ranks_))
    for (const char* when : {"each", "last"}) {
      const Way way{fmt::format("hybrid over {}, {}", shards, when),
                    "hybrid",
                    {{"shard_over", {int64_t{shards}, "test"}},
                     {"all_reduce", {std::string(when), "test"}},
                     {"after_forward", {std::string("keep"), "test"}}}};
      EXPECT_TRUE(train(way, 3) == single_process(way, 3)) << way.name;
    }
}

// The predicted peak stays within the budget, and no freed unit could have been kept as well.
TEST_P(Choosers, AByteBudgetIsKeptAndUsed) {
  const int64_t least = planned({"zero3", "zero3"}, 2).peak.total();
  for (int64_t budget = least; budget <= 2 * least; budget += least / 16) {
    const engine::PlannedStrategy plan = planned({"byte_budget", "byte_budget", {}, {}, 0, 0, budget}, 2);
    EXPECT_LE(plan.peak.total(), budget);
    for (int u = 0; u < model_.unit_count(); ++u) {
      const UnitPlan& unit = plan.plan.units[static_cast<std::size_t>(u)];
      const bool keeps = unit.decision.after_forward == AfterForward::keep();
      if (keeps || !unit.owns_parameters) continue;
      // Were it kept too, the budget would be passed.
      Way more{"and " + unit.name, "zero3"};
      for (const UnitPlan& other : plan.plan.units)
        if (other.name == unit.name || other.decision.after_forward == AfterForward::keep()) {
          more.units.push_back(every_unit(AfterForward::keep(), {}));
          more.units.back().match = other.name;
        }
      EXPECT_GT(planned(more, 2).peak.total(), budget) << unit.name;
    }
  }
}

const auto case_name = [](const auto& one) {
  return fmt::format("ranks_{}_{}_seed_{}", std::get<0>(one.param), std::get<1>(one.param) ? "overlap" : "inline",
                     std::get<2>(one.param));
};

INSTANTIATE_TEST_SUITE_P(All, Strategies,
                         testing::Combine(testing::Values(1, 2, 3, 4), testing::Bool(), testing::Range(0, 5)),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Nodes, Choosers,
                         testing::Combine(testing::Values(2, 4, 6, 8), testing::Bool(), testing::Range(20, 22)),
                         case_name);

// How long planning may take in a build for users; a sanitizer makes everything several times slower.
#ifdef RESHARD_SANITIZED
constexpr double kPatience = 20;
#else
constexpr double kPatience = 1;
#endif

// A thousand units in a second, ten thousand in ten: the strategy asks few questions, and each drives the scheduler
// through a whole step. Of three tries the fastest counts, because the machine may be busy with other tests.
TEST(ByteBudget, PlansAThousandUnitsInASecond) {
  for (const int units : {1000, 10000}) {
    Model model({.name = "root", .parameters = {{"wte", {5000}}}});
    for (int u = 0; u < units; ++u)
      model.add({.name = fmt::format("h.{}", u), .parameters = {{fmt::format("w.{}", u), {1000 + u % 7 * 300}}}});
    Job job = toy::job(4, "byte_budget", 2);
    job.memory.budget = (int64_t{12} << 20) * units / 1000;
    engine::PlannedStrategy planned;
    double fastest = 1e9;
    for (int attempt = 0; attempt < 3 && fastest >= kPatience * units / 1000; ++attempt) {
      const auto started = std::chrono::steady_clock::now();
      planned = engine::plan_strategy(job, model, engine::chosen_strategy(job), 2);
      fastest = std::min(fastest, std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count());
    }
    const auto kept = std::count_if(planned.plan.units.begin(), planned.plan.units.end(), [](const UnitPlan& unit) {
      return unit.decision.after_forward == AfterForward::keep();
    });
    EXPECT_LE(planned.peak.total(), job.memory.budget);
    EXPECT_GT(planned.peak.total(), job.memory.budget - (int64_t{16} << 10)) << "room is left";
    EXPECT_GT(kept, units / 10);
    EXPECT_LT(kept, units * 9 / 10);
    EXPECT_EQ(planned.kept.size(), engine::kMostPriced);
    EXPECT_EQ(planned.kept_unpriced, static_cast<std::size_t>(kept) - engine::kMostPriced);
    EXPECT_LT(fastest, kPatience * units / 1000);
    RecordProperty(fmt::format("seconds_{}", units), fmt::format("{:.3f}", fastest));
  }
}

}  // namespace
}  // namespace reshard::property
