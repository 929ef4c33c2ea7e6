// The gradient norm is a function of the layout's blocks alone: any order, any distribution over ranks, any split at
// block bounds and any instruction set give the same bits; and it is the right number, from the smallest fp32 to the
// largest.

#include "optim/clip.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace reshard::optim {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();
constexpr float kSmallest = std::numeric_limits<float>::denorm_min();

NormSum sum_of(std::span<const float> values) {
  NormSum sum;
  sum.add(values);
  return sum;
}

double norm_of(std::span<const float> values) {
  return sum_of(values).norm();
}

// Floats with exponents spread over 2^-spread … 2^spread, zeros among them.
std::vector<float> random_floats(std::mt19937& random, size_t count, int spread) {
  std::vector<float> values(count);
  std::uniform_int_distribution<int> exponent(-spread, spread);
  std::normal_distribution<float> normal;
  for (float& value : values) value = random() % 16 == 0 ? 0.0F : std::ldexp(normal(random), exponent(random));
  return values;
}

uint64_t bits(double value) {
  return std::bit_cast<uint64_t>(value);
}

TEST(NormSum, OrderDistributionAndInstructionsPlayNoPart) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const size_t count = 1 + random() % 5000;
    const std::vector<float> values = random_floats(random, count, round % 3 == 0 ? 120 : round % 3);
    const uint64_t expected = bits(norm_of(values));

    // Cut at block bounds into runs of random lengths, shuffle them, give each to a random rank.
    std::vector<std::span<const float>> runs;
    for (size_t at = 0; at < count;) {
      const size_t length = std::min(count - at, NormSum::kBlock * (1 + random() % 9));
      runs.push_back(std::span(values).subspan(at, length));
      at += length;
    }
    std::ranges::shuffle(runs, random);
    std::vector<NormSum> ranks(1 + random() % 5);
    const auto sets = supported_instructions();
    for (const auto run : runs) ranks[random() % ranks.size()].add(run, sets[random() % sets.size()]);
    std::ranges::shuffle(ranks, random);
    NormSum all;
    for (const NormSum& rank : ranks) all.merge(rank);
    ASSERT_EQ(bits(all.norm()), expected) << "round " << round << ", " << count << " elements";
    ASSERT_TRUE(all.finite());

    std::vector<float> padded = values;
    padded.resize(count + random() % 300, 0.0F);
    ASSERT_EQ(bits(norm_of(padded)), expected) << "padding changed the norm";
  }
}

TEST(NormSum, AgreesWithExtendedPrecision) {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    const std::vector<float> values = random_floats(random, 1 + random() % 4000, round % 40);
    long double reference = 0;  // 64 bits of mantissa, each square exact
    for (const float value : values) reference += static_cast<long double>(value) * static_cast<long double>(value);
    // 64 additions in fp64 per block, one rounding of the sum and one of the root.
    EXPECT_NEAR(norm_of(values) / static_cast<double>(std::sqrt(reference)), 1.0, 1e-15 * 8);
  }
}

// One non-zero element per block: block sums are exact, so the sum must be the correctly rounded one.
TEST(NormSum, TheSumOfBlocksIsRoundedOnceToNearestEven) {
  const auto blocks = [](std::initializer_list<float> firsts) {
    std::vector<float> values;
    for (const float first : firsts) {
      values.push_back(first);
      values.resize(values.size() + NormSum::kBlock - 1, 0.0F);
    }
    return sum_of(values).squared_norm();
  };
  EXPECT_EQ(blocks({0x1p30F, 0x1p4F}), 0x1p60 + 0x1p8) << "exact: the last place is 2^8";
  EXPECT_EQ(blocks({0x1p30F, 0x1p4F, 0x1p3F}), 0x1p60 + 0x1p8) << "a quarter of the last place is dropped";
  EXPECT_EQ(blocks({0x1p27F, 0x1p0F}), 0x1p54) << "1 is a quarter of the last place";
  EXPECT_EQ(blocks({0x1p27F, 0x1p0F, 0x1p0F}), 0x1p54) << "a tie goes to the even neighbour";
  EXPECT_EQ(blocks({0x1p27F, 0x1p0F, 0x1p0F, 0x1p-140F}), 0x1p54 + 4) << "2^-280 above a tie, which fp64 cannot see";
  EXPECT_EQ(blocks({0x1p27F, 0x1p1F, 0x1p0F, 0x1p0F}), 0x1p54 + 8) << "a tie goes to the even neighbour, upwards";
}

TEST(NormSum, SpansAllOfFp32) {
  EXPECT_EQ(norm_of({}), 0.0);
  EXPECT_EQ(norm_of(std::vector<float>(1000, 0.0F)), 0.0);
  EXPECT_EQ(norm_of(std::vector<float>(1000, -0.0F)), 0.0);
  for (const Instructions set : supported_instructions()) {
    NormSum tiny, huge;
    const std::vector<float> smallest(64, -kSmallest), largest(64 * 1024, kLargest);
    tiny.add(smallest, set);
    huge.add(largest, set);
    EXPECT_EQ(tiny.norm(), 8 * static_cast<double>(kSmallest)) << name(set);
    EXPECT_EQ(huge.norm(), 256 * static_cast<double>(kLargest)) << name(set);
    huge.merge(tiny);
    EXPECT_TRUE(huge.finite());
  }
  const std::vector<float> three_four{3.0F, -4.0F};
  EXPECT_EQ(norm_of(three_four), 5.0);
}

// Doubling by merging reaches sums that no loop could, and every carry on the way.
TEST(NormSum, MergingIsAdditionUpToHugeCounts) {
  std::vector<float> block(64, kLargest);
  NormSum sum = sum_of(block);
  double expected = 64 * static_cast<double>(kLargest) * static_cast<double>(kLargest);
  for (int doubling = 0; doubling < 40; ++doubling) {
    ASSERT_EQ(sum.squared_norm(), expected);
    const NormSum half = sum;
    sum.merge(half);
    expected *= 2;
  }
}

TEST(NormSum, ReportsNanAndInfinityWhereverTheyStand) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<float> values = random_floats(random, 1 + random() % 700, 20);
    const bool nan = round % 2 == 0;
    values[random() % values.size()] = nan ? kNan : round % 4 == 1 ? kInfinity : -kInfinity;
    NormSum sum, all = sum_of(random_floats(random, 100, 3));
    const auto sets = supported_instructions();
    sum.add(values, sets[random() % sets.size()]);
    all.merge(sum);
    ASSERT_FALSE(all.finite());
    ASSERT_EQ(std::isnan(all.norm()), nan);
    ASSERT_EQ(std::isinf(all.norm()), !nan);
  }
  NormSum both = sum_of(std::vector<float>{kInfinity});
  both.merge(sum_of(std::vector<float>{kNan}));
  EXPECT_TRUE(std::isnan(both.norm()));
}

TEST(ClipFactor, IsTorchsRule) {
  EXPECT_EQ(clip_factor(123.0, 0.0), 1.0F) << "0 is off";
  EXPECT_EQ(clip_factor(0.0, 1.0), 1.0F);
  EXPECT_EQ(clip_factor(0.5, 1.0), 1.0F);
  EXPECT_LT(clip_factor(1.0, 1.0), 1.0F) << "1e-6 is added to the norm";
  EXPECT_EQ(clip_factor(4.0, 1.0), static_cast<float>(1.0 / 4.000001));
  EXPECT_EQ(clip_factor(1e300, 0.5), 0.0F);
}

TEST(Magnitude, IsTheLargestWhateverTheSignAndNoNaNIsLost) {
  std::mt19937_64 engine(3);
  for (int size = 0; size < 200; ++size) {
    std::vector<float> values(static_cast<std::size_t>(size));
    double expected = 0;
    for (float& value : values) {
      value = std::normal_distribution<float>(0, 1e20F)(engine);
      expected = std::max(expected, std::fabs(static_cast<double>(value)));
    }
    EXPECT_EQ(largest_magnitude(values), expected);
    if (values.empty()) continue;
    float& any = values[std::uniform_int_distribution<std::size_t>(0, values.size() - 1)(engine)];
    any = -std::numeric_limits<float>::infinity();
    EXPECT_EQ(largest_magnitude(values), std::numeric_limits<double>::infinity());
    any = size % 2 == 0 ? std::nanf("") : -std::nanf("");
    EXPECT_TRUE(std::isnan(largest_magnitude(values)));
    EXPECT_TRUE(std::isnan(larger(largest_magnitude(values), 1.0)) && std::isnan(larger(1.0, largest_magnitude(values))));
  }
}

}  // namespace
}  // namespace reshard::optim
