// Which arms are one plan and what made them so; and that "the same bits" is promised exactly where the sums are the
// same.

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/math.h"
#include "cli/arms.h"
#include "tests/cli/planned.h"

namespace reshard::cli {
namespace {

using Terms = std::vector<std::string>;

// Ranks in pairs of neighbours, bottom up; an odd one passes up.
std::string tree(Terms terms) {
  while (terms.size() > 1) {
    Terms sums;
    for (std::size_t i = 0; i < terms.size(); i += 2)
      sums.push_back(i + 1 < terms.size() ? "(" + terms[i] + "+" + terms[i + 1] + ")" : terms[i]);
    terms = sums;
  }
  return terms.front();
}

std::string in_order(const Terms& terms) {
  std::string sum = terms.front();
  for (std::size_t i = 1; i < terms.size(); ++i) sum = "(" + sum + "+" + terms[i] + ")";
  return sum;
}

// The sum of every rank's and micro-batch's gradient, written out as design.md says that it is added.
std::string written_sum(int ranks, int shards, Reduce reduce, AllReduce all_reduce, int microbatches) {
  const auto gradient = [](int rank, int m) { return fmt::format("g{}.{}", rank, m); };
  const int replicas = ranks / shards;
  const auto group_sum = [&](int replica, const auto& of_rank) {
    Terms terms;
    for (int s = 0; s < shards; ++s) terms.push_back(of_rank(replica * shards + s));
    return tree(terms);
  };
  const auto over_ranks = [&](const auto& of_rank) {
    Terms sums;
    for (int r = 0; r < replicas; ++r) sums.push_back(group_sum(r, of_rank));
    return tree(sums);
  };
  const auto over_microbatches = [&](const auto& of_microbatch) {
    Terms sums;
    for (int m = 0; m < microbatches; ++m) sums.push_back(of_microbatch(m));
    return in_order(sums);
  };
  if (reduce == Reduce::last)
    return over_ranks([&](int rank) { return over_microbatches([&](int m) { return gradient(rank, m); }); });
  if (replicas == 1 || all_reduce == AllReduce::each)
    return over_microbatches([&](int m) { return over_ranks([&](int rank) { return gradient(rank, m); }); });
  Terms sums;
  for (int r = 0; r < replicas; ++r)
    sums.push_back(over_microbatches([&](int m) { return group_sum(r, [&](int rank) { return gradient(rank, m); }); }));
  return tree(sums);
}

Plan plan_of(int ranks, int shards, Reduce reduce, AllReduce all_reduce) {
  Plan plan = planned_strategy(1, ranks).plan;
  plan.shards = shards;
  plan.all_reduce = all_reduce;
  plan.units[1].decision.reduce = reduce;
  return plan;
}

TEST(Promise, HoldsExactlyWhereTheSumsAreTheSame) {
  int promised = 0, refused = 0;
  for (int ranks = 1; ranks <= 12; ++ranks)
    for (const int microbatches : {1, 2, 3}) {
      Job job;
      job.train.microbatches = microbatches;
      std::vector<std::pair<Plan, std::string>> all;
      for (const int shards : base::divisors(ranks))
        for (const Reduce reduce : {Reduce::each, Reduce::last})
          for (const AllReduce all_reduce : {AllReduce::each, AllReduce::last})
            all.emplace_back(plan_of(ranks, shards, reduce, all_reduce),
                             written_sum(ranks, shards, reduce, all_reduce, microbatches));
      for (const auto& [a, sum_a] : all)
        for (const auto& [b, sum_b] : all) {
          const bool same = promise(a, b, job).same_bits;
          ++(same ? promised : refused);
          EXPECT_EQ(same, sum_a == sum_b) << ranks << " ranks, " << microbatches << " micro-batches\n"
                                          << sum_a << "\n"
                                          << sum_b;
        }
    }
  EXPECT_GT(promised, 500);
  EXPECT_GT(refused, 500);
}

TEST(Promise, SaysWhy) {
  Job job;
  job.train.microbatches = 2;
  const Plan each = plan_of(4, 4, Reduce::each, AllReduce::each);
  Plan kept = each;
  kept.units[1].decision.after_forward = AfterForward::keep();
  EXPECT_EQ(promise(each, each, job).why, "the same plan");
  EXPECT_EQ(promise(each, kept, job).why, "it reduces at the same points");
  EXPECT_EQ(promise(each, plan_of(4, 4, Reduce::last, AllReduce::each), job).why,
            "one reduces h.0 in each micro-batch, one in the last, which adds in another order");
  EXPECT_EQ(promise(each, plan_of(4, 2, Reduce::each, AllReduce::last), job).why,
            "one all-reduces in each micro-batch, one in the last, which adds in another order");
  EXPECT_EQ(
      promise(plan_of(6, 6, Reduce::each, AllReduce::each), plan_of(6, 3, Reduce::each, AllReduce::each), job).why,
      "shard groups that are no power of two cut the sums over ranks in other places");
  job.mesh.reduce_order = "native";
  EXPECT_EQ(promise(each, kept, job).why, "reduce_order = \"native\" fixes no order of adding");
  EXPECT_TRUE(promise(each, each, job).same_bits);
}

TEST(SamePlan, NamesTheLinesThatMadeItSo) {
  Plan a = planned_strategy(2).plan, b = a;
  const Plan a_free = a;
  Plan b_free = b;
  b_free.units[1].decision.after_forward = AfterForward::keep();
  b_free.units[2].decision.after_forward = AfterForward::keep();
  b.units[1].origins[0] = {Origin::By::job, "job.toml:14:1", "", ""};
  b.units[2].origins[0] = {Origin::By::command_line, "--unit h.1:after_forward", "", ""};
  a.units[1].origins[1] = {Origin::By::job, "job.toml:20:1", "", ""};  // both strategies say the same here
  EXPECT_EQ(same_plan_reason(a, b, &a_free, &b_free),
            "job.toml:14:1 (after_forward of h.0) and --unit h.1:after_forward (after_forward of h.1)");
  Plan over = b;
  b_free = a_free;
  b_free.shards = 1;
  over.shard_over_origin = {Origin::By::job, "job.toml:4:1", "", ""};
  EXPECT_EQ(same_plan_reason(a, over, &a_free, &b_free), "job.toml:4:1 (shard_over)");
}

TEST(SamePlan, OfUnitsWithoutParametersAndOfStrategiesThatAgree) {
  const Plan a = planned_strategy(2).plan;
  Plan b = a;
  EXPECT_EQ(same_plan_reason(a, b, &a, &b), "the strategies decide alike here");
  b.units[0].decision.after_forward = AfterForward::keep();
  EXPECT_EQ(same_plan_reason(a, b, nullptr, nullptr), "they differ only in root, without parameters");
}

TEST(Arms, AVariantsNameWinsOverAStrategys) {
  Job job;
  job.strategy.variants.push_back({"deep", "north", {{"prefetch", {int64_t{2}, "job.toml:3:1"}}}, "job.toml:2:1"});
  const Arm deep = make_arm(job, "deep");
  EXPECT_EQ(deep.choice.plugin, "north");
  EXPECT_EQ(deep.choice.options.size(), 1U);
  EXPECT_EQ(deep.choice.where, "job.toml:2:1");
  const Arm plain = make_arm(job, "north");
  EXPECT_EQ(plain.choice.plugin, "north");
  EXPECT_EQ(plain.choice.where, "--strategies");
  const Arm file = make_arm(job, "/opt/acme_mine.so");
  EXPECT_EQ(file.name, "acme_mine");
  EXPECT_EQ(file.choice.plugin, "/opt/acme_mine.so");
}

}  // namespace
}  // namespace reshard::cli
