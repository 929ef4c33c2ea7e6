// torch::nn on Reshard's shards: gradients and losses equal those of plain LibTorch in one process, to the bit on one
// rank, under every strategy.
#include <gtest/gtest.h>

#include "tests/examples/libtorch_training.h"

namespace reshard {
namespace {

class Strategies : public testing::TestWithParam<Case> {};

TEST_P(Strategies, GradientsArePlainLibTorchs) {
  const Case& one = GetParam();
  const Training sharded = run_sharded(one, 1);
  const Training plain = run_plain(1, one.ranks == 1 ? one.microbatches : 1, one.frozen);
  ASSERT_EQ(sharded.gradients.size(), plain.gradients.size());
  for (const auto& [name, expected] : plain.gradients) {
    const Tensor& gradient = sharded.gradients.at(name);
    ASSERT_GT(largest(expected), 0) << name;
    if (one.ranks == 1)
      EXPECT_TRUE(torch::equal(gradient, expected)) << name;
    else
      EXPECT_LE(largest(gradient - expected), 2e-6 * (1 + largest(expected))) << name;
  }
}

// Each unit begins and ends when the declared step says so: nothing is whole longer than predicted.
TEST_P(Strategies, BytesAndTrafficArePredictedToTheByte) {
  const Report report = run_sharded(GetParam(), 1).report;
  EXPECT_EQ(report.measured.bytes, report.predicted.bytes);
  for (const auto kind : {&TrafficByOp::gather, &TrafficByOp::reduce, &TrafficByOp::all_reduce}) {
    EXPECT_EQ((report.traffic.*kind).count, (report.traffic_declared.*kind).count);
    EXPECT_EQ((report.traffic.*kind).bytes, (report.traffic_declared.*kind).bytes);
  }
  EXPECT_EQ(report.order_deviations, 0);
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* strategy : tests::kShipped)
    for (const int ranks : {1, 2, 4})
      for (const int microbatches : {1, 2}) all.push_back({strategy, ranks, microbatches});
  for (const char* strategy : {"zero3", "zero1"})
    for (const int ranks : {1, 2}) all.push_back({strategy, ranks, 2, true});
  return all;
}
INSTANTIATE_TEST_SUITE_P(All, Strategies, testing::ValuesIn(cases()));

TEST(LibTorch, TwentyStepsAreAPlainTrainingToTheBitOnOneRank) {
  const Training sharded = run_sharded({"zero3", 1, 1}, 20), plain = run_plain(20, 1, false);
  EXPECT_LT(plain.losses.back(), 0.97 * plain.losses.front());
  EXPECT_EQ(sharded.losses, plain.losses);
  EXPECT_EQ(sharded.parameters, plain.parameters);
}

TEST(LibTorch, TwentyStepsOfTwoRanksAreAPlainTrainingToRounding) {
  const Training sharded = run_sharded({"zero3", 2, 2}, 20), plain = run_plain(20, 1, false);
  ASSERT_EQ(sharded.losses.size(), 20U);
  for (std::size_t s = 0; s < 20; ++s) EXPECT_NEAR(sharded.losses[s], plain.losses[s], 1e-4) << "step " << s;
}

TEST(LibTorch, AForwardOnlyPassLeavesTrainingAsItIs) {
  const Job job = job_of({"zero3", 2, 1});
  const Training undisturbed = run_sharded({"zero3", 2, 1}, 3);
  launch(job, [&](Rank& rank) {
    at::set_num_threads(1);
    Reverser net = make_net();
    Gradients unused;
    Runtime runtime(job, sharded::declare(*net, "blocks"), rank, std::make_unique<sharded::Adam>(adam_options()));
    sharded::Units units(*net, "blocks", runtime);
    for (int64_t s = 0; s < 3; ++s) {
      double loss = 0;
      runtime.evaluate([&] {
        const torch::NoGradGuard forward_only;
        loss = units.forward([&] { return reversal_loss(net, rows_of(s, rank.index(), 2)); }).item<double>();
      });
      const std::vector<double> losses = rank.exchange(loss);
      const double trained = step_of(runtime, units, net, s);
      EXPECT_EQ(trained, undisturbed.losses[static_cast<std::size_t>(s)]);
      EXPECT_NEAR((losses[0] + losses[1]) / 2, trained, 1e-6);
    }
  });
}

}  // namespace
}  // namespace reshard
