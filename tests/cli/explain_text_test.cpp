// The printed parts of a plan, exactly.

#include <gtest/gtest.h>

#include "cli/explain_text.h"
#include "cli/json.h"
#include "cli/replaced.h"
#include "tests/cli/planned.h"

namespace reshard::cli {
namespace {

const Style kPlain;

TEST(ExplainText, TitleNamesPlanAndMesh) {
  engine::PlannedStrategy planned = planned_strategy(2, 4);
  planned.plan.shards = 2;
  Job job;
  job.train.microbatches = 2;
  EXPECT_EQ(plan_title(planned, job, kPlain),
            "north: frees everything\n\n"
            "  strategy  north 1.2.0, /opt/north.so\n"
            "  plan      " +
                planned.plan.hash() +
                "\n"
                "  mesh      4 ranks, 2 replicas × 2 shards\n"
                "  step      16 sequences in 2 micro-batches per rank\n");
}

TEST(ExplainText, EveryUnitHasARow) {
  engine::PlannedStrategy planned = planned_strategy(2);
  planned.plan.units[2].decision.after_forward = AfterForward::shrink(2);
  planned.plan.units[2].decision.prefetch_backward = 3;
  EXPECT_EQ(units_text(planned, kPlain),
            "  unit  bytes  shard  after_forward  after_backward  reduce  prefetch forward  backward\n"
            "  root    0 B    0 B  -              -               -                      -         -\n"
            "  h.0   1 KiB  512 B  free           free            each                   1         1\n"
            "  h.1   1 KiB  512 B  2              free            each                   1         3\n");
}

// A whole unit's format says why its bytes are not those of its shards together.
TEST(ExplainText, FormatsHaveAColumnWhereTheyAreNotAllFp32) {
  engine::PlannedStrategy planned = planned_strategy(2);
  planned.units[2].dtype = Dtype::bf16;
  planned.units[2].whole = 512;
  EXPECT_EQ(units_text(planned, kPlain),
            "  unit  dtype  bytes  fp32 shard  after_forward  after_backward  reduce  prefetch forward  backward\n"
            "  root  -        0 B         0 B  -              -               -                      -         -\n"
            "  h.0   fp32   1 KiB       512 B  free           free            each                   1         1\n"
            "  h.1   bf16   512 B       512 B  free           free            each                   1         1\n");
  EXPECT_EQ(to_json(planned).at("units").at(2).at("dtype"), "bf16");
}

TEST(ExplainText, UnitsThatAreNotPricedAreSaidToBeThere) {
  engine::PlannedStrategy planned = planned_strategy(2);
  planned.kept.assign(engine::kMostPriced, {1, 512});
  EXPECT_EQ(kept_text(planned, kPlain).find("priced"), std::string::npos);
  planned.kept_unpriced = 1;
  EXPECT_TRUE(kept_text(planned, kPlain).ends_with("  the 64 largest; smaller ones are not priced\n"));
}

TEST(ExplainText, LongRunsOfTheSameShareARow) {
  engine::PlannedStrategy planned = planned_strategy(12);
  planned.plan.units[12].decision.after_forward = AfterForward::keep();
  EXPECT_EQ(
      units_text(planned, kPlain),
      "  unit                         bytes  shard  after_forward  after_backward  reduce  prefetch forward  backward\n"
      "  root                           0 B    0 B  -              -               -                      -         -\n"
      "  h.0 … h.10 (11 units, each)  1 KiB  512 B  free           free            each                   1         1\n"
      "  h.11                         1 KiB  512 B  keep           free            each                   1         "
      "1\n");
}

TEST(ExplainText, EachValueIsCreditedToWhoDecidedIt) {
  engine::PlannedStrategy planned = planned_strategy(3);
  Plan& plan = planned.plan;
  plan.shard_over_origin = {Origin::By::job, "job.toml:4:1", "", ""};
  plan.units[1].decision.after_forward = AfterForward::keep();
  plan.units[1].origins[0] = {Origin::By::command_line, "--unit h.0:after_forward", "", "\"free\" (job.toml:14:1)"};
  for (const std::size_t u : {2U, 3U}) plan.units[u].origins[2] = {};
  EXPECT_EQ(deciders_text(plan, kPlain),
            "who decided\n"
            "  --unit h.0:after_forward\n"
            "    h.0: after_forward = keep instead of \"free\" (job.toml:14:1)\n"
            "  job.toml:4:1\n"
            "    the plan: shard_over = 2 (all ranks)\n"
            "  plugin north: whole only while it is used\n"
            "    every unit: after_backward = free, prefetch_forward = 1, prefetch_backward = 1\n"
            "    h.0: reduce = each\n"
            "    h.1 and h.2: after_forward = free\n"
            "  core default\n"
            "    the plan: all_reduce = each\n"
            "    h.1 and h.2: reduce = each\n");
}

// [precision] stands in the title; what a unit has of its own stands with who gave it.
TEST(ExplainText, AUnitsOwnFormatIsCreditedToo) {
  Plan plan = planned_strategy(2).plan;
  plan.units[1].dtype = Dtype::bf16;
  plan.units[1].dtype_origin = {Origin::By::job, "job.toml:3:1", "", ""};
  EXPECT_EQ(deciders_text(plan, kPlain).find("param_dtype"), std::string::npos);
  plan.units[1].own_dtype = plan.units[2].own_dtype = true;
  plan.units[1].dtype_origin = {Origin::By::job, "job.toml:9:1", "", "\"fp32\" (the program)"};
  plan.units[2].dtype_origin = {Origin::By::program, "", "", ""};
  EXPECT_EQ(deciders_text(plan, kPlain).find("who decided\n"
                                             "  job.toml:9:1\n"
                                             "    h.0: param_dtype = bf16 instead of \"fp32\" (the program)\n"
                                             "  the program\n"
                                             "    h.1: param_dtype = fp32\n"
                                             "  plugin north"),
            0U)
      << deciders_text(plan, kPlain);
}

// The plan's own values have a voice whoever it is.
TEST(ExplainText, TheWholePlansValuesAreCreditedToo) {
  Plan plan = planned_strategy(1, 4).plan;
  plan.shards = 2;
  plan.shard_over_origin = plan.all_reduce_origin = by_plugin("two by two");
  EXPECT_NE(
      deciders_text(plan, kPlain).find("  plugin north: two by two\n    the plan: shard_over = 2, all_reduce = each\n"),
      std::string::npos)
      << deciders_text(plan, kPlain);
  plan.shard_over_origin = plan.all_reduce_origin = {};
  plan.shards = 4;
  EXPECT_TRUE(deciders_text(plan, kPlain)
                  .ends_with("  core default\n    the plan: shard_over = 4 (all ranks), all_reduce = each\n"))
      << deciders_text(plan, kPlain);
}

TEST(ExplainText, WhatTheCommandLineReplaced) {
  const std::vector<ReplacedValue> values{{"mesh.ranks", "4", "--ranks", "2", "job.toml:7:1"},
                                          {"strategy.plugin", "\"zero2\"", "--strategy", "\"zero3\"", "job.toml:2:1"},
                                          {"strategy.shard_over", "", "--set strategy", "2", "job.toml:3:1"}};
  EXPECT_EQ(replaced_text(values, kPlain),
            "replaced on the command line\n"
            "  mesh.ranks = 4 (--ranks); job.toml:7:1 said 2\n"
            "  strategy.plugin = \"zero2\" (--strategy); job.toml:2:1 said \"zero3\"\n"
            "  strategy.shard_over is not set (--set strategy); job.toml:3:1 said 2\n");
  EXPECT_EQ(replaced_text({}, kPlain), "");
}

TEST(ExplainText, StepAndPeak) {
  engine::PlannedStrategy planned = planned_strategy(2);
  planned.kept = {{1, 512}, {2, 0}};
  planned.plan.notes = {"root owns no parameters: what is decided for it changes nothing."};
  planned.log = {"warning: look out"};
  EXPECT_EQ(step_traffic_text(planned, kPlain),
            "  per rank and step  count  bytes received\n"
            "  gather                 4           4 KiB\n"
            "  reduce                 2           1 KiB\n"
            "  all                    6           5 KiB\n");
  EXPECT_EQ(predicted_peak_text(planned, kPlain),
            "  predicted peak per rank  5.75 KiB\n"
            "  sharded parameters          1 KiB\n"
            "  whole parameters            2 KiB\n"
            "  gradients                   512 B\n"
            "  reduce buffers                0 B\n"
            "  optimizer state             2 KiB\n"
            "  activations                 256 B\n"
            "  at unit h.1, before backward, micro-batch 1\n");
  EXPECT_EQ(kept_text(planned, kPlain),
            "  kept unit  costs at the peak\n"
            "  h.0        512 B\n"
            "  h.1        nothing\n");
  EXPECT_EQ(notes_text(planned, kPlain),
            "  note: root owns no parameters: what is decided for it changes nothing.\n"
            "  warning: look out\n");
}

TEST(ExplainText, TheBudgetsVerdict) {
  const engine::PlannedStrategy planned = planned_strategy(2);
  Job job;
  EXPECT_EQ(budget_text(job, planned), "");
  job.memory.budget = 8192;
  job.places["memory.budget"] = {"job.toml:40:1"};
  EXPECT_EQ(budget_text(job, planned), "  budget 8 KiB per rank (job.toml:40:1): 2.25 KiB to spare\n");
  job.memory.budget = 4096;
  EXPECT_EQ(budget_text(job, planned), "  budget 4 KiB per rank (job.toml:40:1): 1.75 KiB too little\n");
}

TEST(ExplainText, NamesOfUnits) {
  const Plan plan = planned_strategy(6).plan;
  EXPECT_EQ(unit_names_text(plan, {1, 2, 3, 4, 5, 6}), "every unit");
  EXPECT_EQ(unit_names_text(plan, {1}), "h.0");
  EXPECT_EQ(unit_names_text(plan, {1, 2}), "h.0 and h.1");
  EXPECT_EQ(unit_names_text(plan, {0, 2, 3, 4, 6}), "root, h.1 … h.3 and h.5");
}

TEST(ExplainText, ArmsSideBySide) {
  std::vector<PlannedArm> arms(2);
  arms[0].arm.name = "north";
  arms[1].arm.name = "deep";
  arms[0].planned = arms[1].planned = planned_strategy(2);
  arms[1].planned.plan.units[1].decision.prefetch_forward = 4;
  arms[1].planned.peak.bytes[1] = 4096;
  arms[1].same_as = 0;
  arms[1].same_because = "job.toml:14:1 (after_forward of h.0)";
  const std::string first = arms[0].planned.plan.hash().substr(0, 8), second = arms[1].planned.plan.hash().substr(0, 8);
  EXPECT_EQ(arms_text(arms, kPlain),
            "  per rank and step  plan      gathers  reduces  all-reduces  bytes received      peak  at\n"
            "  north              " +
                first +
                "        4        2            0           5 KiB  5.75 KiB  unit h.1, before backward, micro-batch 1\n"
                "  deep               " +
                second +
                "        4        2            0           5 KiB  7.75 KiB  unit h.1, before backward, micro-batch 1\n"
                "\n"
                "  predicted peak      north   deep\n"
                "  sharded parameters  1 KiB  1 KiB\n"
                "  whole parameters    2 KiB  4 KiB\n"
                "  gradients           512 B  512 B\n"
                "  reduce buffers        0 B    0 B\n"
                "  optimizer state     2 KiB  2 KiB\n"
                "  activations         256 B  256 B\n");
  EXPECT_EQ(same_plans_text(arms), "  north and deep are the same plan: job.toml:14:1 (after_forward of h.0)\n");
}

}  // namespace
}  // namespace reshard::cli
