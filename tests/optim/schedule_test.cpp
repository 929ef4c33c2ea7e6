// The learning-rate multiplier: its convention at both ends of the warm-up and of the decay, and its shape between.

#include "optim/schedule.h"

#include <gtest/gtest.h>

namespace reshard::optim {
namespace {

TEST(Schedule, ConstantIsOneFromTheEndOfTheWarmUp) {
  EXPECT_EQ(learning_rate_multiplier({}, 0, 1), 1.0);
  EXPECT_EQ(learning_rate_multiplier({}, 1000, 10), 1.0);
  const Schedule warm{.warmup_steps = 4};
  EXPECT_EQ(learning_rate_multiplier(warm, 0, 10), 0.25);
  EXPECT_EQ(learning_rate_multiplier(warm, 1, 10), 0.5);
  EXPECT_EQ(learning_rate_multiplier(warm, 2, 10), 0.75);
  EXPECT_EQ(learning_rate_multiplier(warm, 3, 10), 1.0);
  EXPECT_EQ(learning_rate_multiplier(warm, 9, 10), 1.0);
}

TEST(Schedule, CosineGoesFromOneAfterTheWarmUpToTheFinalRatioAtTheLastStep) {
  for (const int64_t warmup : {0, 1, 2, 30, 98})
    for (const double ratio : {0.0, 0.1, 1.0}) {
      const Schedule schedule{.decay = Decay::cosine, .warmup_steps = warmup, .final_ratio = ratio};
      const auto at = [&](int64_t step) { return learning_rate_multiplier(schedule, step, 100); };
      if (warmup > 0) {
        EXPECT_EQ(at(0), 1.0 / static_cast<double>(warmup));
        EXPECT_EQ(at(warmup - 1), 1.0);
      }
      EXPECT_EQ(at(warmup), 1.0);
      EXPECT_EQ(at(99), ratio);
      EXPECT_EQ(at(100), ratio) << "after the last step it stays";
      EXPECT_EQ(at(100000), ratio);
      for (int64_t step = 0; step < 99; ++step) {
        EXPECT_GT(at(step), 0.0) << "an update with rate 0 would be wasted";
        const double rise = at(step + 1) - at(step);
        EXPECT_TRUE(step < warmup ? rise >= 0 : rise <= 0) << "step " << step;
      }
    }
}

TEST(Schedule, CosineIsHalfWayInTheMiddle) {
  const Schedule schedule{.decay = Decay::cosine, .warmup_steps = 10, .final_ratio = 0.2};
  EXPECT_NEAR(learning_rate_multiplier(schedule, 60, 111), 0.6, 1e-15);
  // cos(pi / 4): a quarter of the way.
  EXPECT_NEAR(learning_rate_multiplier(schedule, 35, 111), 0.2 + 0.8 * (1 + 0.70710678118654752) / 2, 1e-15);
}

TEST(Schedule, ARunWithoutRoomForDecayStaysAtOne) {
  const Schedule schedule{.decay = Decay::cosine, .warmup_steps = 5, .final_ratio = 0.0};
  EXPECT_EQ(learning_rate_multiplier({.decay = Decay::cosine}, 0, 1), 1.0);
  EXPECT_EQ(learning_rate_multiplier(schedule, 5, 6), 1.0);
  EXPECT_EQ(learning_rate_multiplier(schedule, 2, 3), 0.6) << "a warm-up longer than the run";
}

}  // namespace
}  // namespace reshard::optim
