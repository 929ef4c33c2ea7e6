// What two runs say: paired ratios, and which steps' bits count for whom. And how it is printed.

#include <gtest/gtest.h>

#include "cli/compare_text.h"
#include "cli/compare_verdict.h"

namespace reshard::cli {
namespace {

// Three arms, two blocks of two steps; in each turn the second step is timed. The third arm makes no promise.
struct TwoRounds {
  TwoRounds() {
    comparison.blocks = 2;
    comparison.block_steps = 2;
    comparison.steps = 12;
    for (const char* name : {"north", "south", "east"}) {
      ArmResult arm;
      arm.name = name;
      arm.promised = arm.name != "east";
      arm.promise = arm.promised ? "it reduces at the same points" : "one of them adds later";
      comparison.arms.push_back(arm);
    }
    const double seconds[2][3] = {{2.0, 1.0, 3.0}, {1.0, 1.0, 0.5}};  // per block and arm
    for (int block = 0; block < 2; ++block)
      for (int arm = 0; arm < 3; ++arm)
        for (const bool timed : {false, true}) {
          measured.steps.push_back({arm, block, timed, 1.0, timed ? seconds[block][arm] : 100.0, 0.25});
          reference.losses.push_back(1.0);
        }
    measured.arms.resize(3);
    for (ArmMeasured& arm : measured.arms) {
      arm.blocks = 2;
      arm.traffic.all_reduce = {2, 1024, 1.0, 0.5};
      arm.traffic.gather = {8, 4096, 1.0, 0.5};
      arm.peak.bytes[0] = 1024;
    }
  }
  Comparison comparison;
  Reference reference;
  Measured measured;
};

TEST(Judge, RatiosArePairedBlockByBlock) {
  TwoRounds run;
  judge(run.reference, run.measured, run.comparison);
  const ArmResult& south = run.comparison.arms[1];
  EXPECT_EQ(south.seconds, (std::vector<double>{1.0, 1.0}));
  EXPECT_DOUBLE_EQ(south.ratio_low, 0.5);
  EXPECT_DOUBLE_EQ(south.ratio_high, 1.0);
  EXPECT_DOUBLE_EQ(south.ratio, 0.75);
  const ArmResult& east = run.comparison.arms[2];
  EXPECT_DOUBLE_EQ(east.ratio_low, 0.5);
  EXPECT_DOUBLE_EQ(east.ratio_high, 1.5);
  EXPECT_DOUBLE_EQ(run.comparison.arms[0].ratio, 1.0);
  EXPECT_EQ(south.traffic.gather.count, 4);
  EXPECT_EQ(south.traffic.gather.bytes, 2048);
  EXPECT_DOUBLE_EQ(south.traffic.gather.seconds_exposed, 0.25);
  EXPECT_DOUBLE_EQ(south.seconds_exposed, 0.25);
}

TEST(Judge, APromiseCountsUntilAnotherArmHasChangedTheState) {
  TwoRounds run;
  run.measured.steps[7].loss = 1.5;  // north's, in the second round: after east
  judge(run.reference, run.measured, run.comparison);
  EXPECT_TRUE(run.comparison.arms[0].identical);
  EXPECT_EQ(run.comparison.arms[0].steps_compared, 2);
  EXPECT_EQ(run.comparison.arms[0].steps_after, 2);
  EXPECT_EQ(run.comparison.arms[0].differs_since, "east");
  EXPECT_EQ(run.comparison.arms[2].steps_compared, 4);
  EXPECT_FALSE(run.comparison.parameters_promised);

  run.measured.steps[2].loss = 1.25;  // south's, in the first round: a promise that is broken
  run.measured.steps[11].loss = 0.5;
  judge(run.reference, run.measured, run.comparison);
  EXPECT_FALSE(run.comparison.arms[1].identical);
  EXPECT_DOUBLE_EQ(run.comparison.arms[1].largest_difference, 0.25);
  EXPECT_FALSE(run.comparison.arms[2].identical);
  EXPECT_DOUBLE_EQ(run.comparison.arms[2].largest_difference, 0.5);
}

TEST(CompareText, CostsPeaksAndBits) {
  TwoRounds run;
  run.measured.steps[11].loss = 1.5;
  run.measured.parameters_identical = false;
  run.measured.largest_difference = 2e-6;
  run.measured.differing_parameter = "w";
  judge(run.reference, run.measured, run.comparison);
  EXPECT_EQ(costs_text(run.comparison, {100, "tokens"}, Style()),
            "per step    time     ratio to the first  tokens/s  exposed  gathers  reduces  all-reduces  bytes received "
            "  peak\n"
            "north      1.5 s                      1        67   250 ms        4        0            1         2.5 KiB "
            " 1 KiB\n"
            "south        1 s  0.750 (0.500 … 1.000)       100   250 ms        4        0            1         2.5 KiB "
            " 1 KiB\n"
            "east      1.75 s  1.000 (0.500 … 1.500)        57   250 ms        4        0            1         2.5 KiB "
            " 1 KiB\n");
  EXPECT_EQ(bits_text(run.comparison, Style()),
            "bits, against a run of north alone\n"
            "north       identical losses in the 2 steps before east's first turn\n"
            "south       identical losses in the 2 steps before east's first turn, as promised: it reduces at the same "
            "points\n"
            "east        losses differ by up to 5.0e-01 in all 4 steps; not promised: one of them adds later\n"
            "parameters  differ by up to 2.0e-06 of the largest value after 12 steps, in w; not promised\n");
  run.comparison.arms.pop_back();
  run.comparison.parameters_promised = true;
  for (ArmResult& arm : run.comparison.arms) arm.differs_since.clear();
  run.comparison.arms[1].identical = false;
  run.comparison.arms[1].largest_difference = 0.25;
  run.comparison.arms[1].same_plan_as = "north";
  run.comparison.arms[1].same_plan_because = "job.toml:14:1 (reduce of w)";
  EXPECT_EQ(
      bits_text(run.comparison, Style()),
      "bits, against a run of north alone\n"
      "north       identical losses in all 2 steps\n"
      "south       losses differ by up to 2.5e-01 in all 2 steps, against the promise: it reduces at the same points\n"
      "parameters  differ by up to 2.0e-06 of the largest value after 12 steps, in w, against the promise\n");
  EXPECT_EQ(same_plans_text(run.comparison), "north and south are the same plan: job.toml:14:1 (reduce of w)\n");
  EXPECT_EQ(peaks_text(run.comparison, Style()),
            "measured peak of the fullest rank  north  south\n"
            "sharded parameters                 1 KiB  1 KiB\n"
            "whole parameters                     0 B    0 B\n"
            "gradients                            0 B    0 B\n"
            "reduce buffers                       0 B    0 B\n"
            "optimizer state                      0 B    0 B\n"
            "activations                          0 B    0 B\n"
            "all                                1 KiB  1 KiB\n"
            "predicted                            0 B    0 B\n");
}

// Stopped in the second round, after north's turn: what was not finished says nothing.
TEST(CompareText, ARunThatWasStopped) {
  TwoRounds run;
  run.measured.steps.resize(4);
  run.measured.arms[0].blocks = 1;
  run.measured.arms[1].blocks = 1;
  run.measured.arms[2].blocks = 0;
  for (ArmMeasured& arm : run.measured.arms) arm.traffic = {{4, 2048, 1.0, 0.5}, {}, {}, {}, {}};
  judge(run.reference, run.measured, run.comparison);
  EXPECT_TRUE(run.comparison.stopped());
  EXPECT_EQ(costs_text(run.comparison, {}, Style()),
            "per step  time     ratio to the first  exposed  gathers  reduces  all-reduces  bytes received   peak\n"
            "north      2 s                      1   250 ms        4        0            0           2 KiB  1 KiB\n"
            "south      1 s  0.500 (0.500 … 0.500)   250 ms        4        0            0           2 KiB  1 KiB\n"
            "east         -                      -        -        -        -            -               -      -\n");
  EXPECT_EQ(bits_text(run.comparison, Style()),
            "bits, against a run of north alone\n"
            "north       identical losses in all 2 steps\n"
            "south       identical losses in all 2 steps, as promised: it reduces at the same points\n"
            "east        no turn was finished\n"
            "parameters  not compared: the run was stopped before its end\n");
  const Json json = to_json(run.comparison, {});
  EXPECT_EQ(json.at("steps_done"), 4);
  EXPECT_TRUE(json.at("stopped"));
  EXPECT_FALSE(json.contains("parameters"));
}

TEST(Json, HexKeepsEveryBit) {
  EXPECT_EQ(hex_text(1.0), "0x1p+0");
  EXPECT_EQ(hex_text(0.1), "0x1.999999999999ap-4");
  for (const double value : {5.557779788970947, 1e-300, -0.0, 3.0 / 7}) {
    EXPECT_EQ(std::strtod(hex_text(value).c_str(), nullptr), value);
  }
}

}  // namespace
}  // namespace reshard::cli
