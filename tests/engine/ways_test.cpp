// That the loops over ways leave none out, and that each strategy has something to do in them.

#include <algorithm>
#include <set>
#include <string>
#include <tuple>

#include <gtest/gtest.h>

#include "tests/engine/ways.h"

namespace reshard {
namespace {

using Seen = std::set<std::tuple<std::string, int, bool>>;

Seen seen(std::initializer_list<int> ranks, std::initializer_list<uint64_t> turns) {
  Seen all;
  for (const uint64_t turn : turns)
    for (const toy::Way& way : toy::ways(ranks, turn)) all.emplace(way.strategy, way.ranks, way.overlap);
  return all;
}

TEST(Ways, EachStrategyOnEachNumberOfRanksWithAndWithoutOverlapInTwoTurns) {
  Seen all;
  for (const char* strategy : tests::kShipped)
    for (const int ranks : {1, 2, 3, 5})
      for (const bool overlap : {false, true}) all.emplace(strategy, ranks, overlap);
  for (const uint64_t turn : {0, 7}) {
    EXPECT_EQ(seen({1, 2, 3, 5}, {turn, turn + 1}), all);
    Seen alone;
    for (const int ranks : {1, 2, 3, 5}) alone.merge(seen({ranks}, {turn, turn + 1}));
    EXPECT_EQ(alone, all);
  }
  std::set<std::string> on_eight;
  for (uint64_t turn = 0; turn < std::size(tests::kShipped); ++turn)
    for (const toy::Way& way : toy::ways({2, 4}, turn))
      if (way.ranks == 8) on_eight.insert(way.strategy);
  EXPECT_EQ(on_eight.size(), std::size(tests::kShipped));
}

TEST(Ways, TheStrategiesThatChooseDoNotAllChooseTheSame) {
  Model model({.name = "root", .parameters = {{"a", {100}}}});
  for (int u = 0; u < 8; ++u)
    model.add({.name = "h." + std::to_string(u), .parameters = {{"w" + std::to_string(u), {300}}}});
  const auto planned = [&](const char* strategy, int ranks) {
    const Job job = toy::with_budget(toy::job(ranks, strategy), model, 2);
    return engine::plan_strategy(job, model, {job.strategy.plugin, {}, "test"}, 2).plan;
  };
  const auto with = [&](const Plan& plan, AfterForward::Kind kind) {
    return std::ranges::count_if(plan.units,
                                 [&](const UnitPlan& unit) { return unit.decision.after_forward.kind == kind; });
  };
  for (const int ranks : {2, 3, 4, 8})
    for (const char* strategy : {"byte_budget", "keep_last", "root_no_reshard"}) {
      EXPECT_GT(with(planned(strategy, ranks), AfterForward::Kind::keep), 0) << strategy << " on " << ranks;
      EXPECT_GT(with(planned(strategy, ranks), AfterForward::Kind::free), 0) << strategy << " on " << ranks;
    }
  for (const int ranks : {4, 8}) {
    EXPECT_EQ(with(planned("node_reshard", ranks), AfterForward::Kind::shrink), model.unit_count());
    EXPECT_EQ(planned("hybrid", ranks).shards, ranks / 2);
  }
}

}  // namespace
}  // namespace reshard
