// Rounding and divisors against their definitions.

#include "base/math.h"

#include <bit>
#include <cmath>
#include <cstdint>

#include <gtest/gtest.h>

namespace reshard::base {
namespace {

TEST(Math, RoundUpIsTheSmallestMultipleThatIsNotBelow) {
  for (int64_t step = 1; step <= 65; ++step)
    for (int64_t value = 0; value <= 200; ++value) {
      const int64_t up = round_up(value, step);
      EXPECT_EQ(up % step, 0);
      EXPECT_TRUE(up >= value && up - step < value) << value << " by " << step;
      EXPECT_EQ(ceil_div(value, step) * step, up);
    }
}

TEST(Math, DivisorsAreAllThatDivideInRisingOrder) {
  for (int n = 1; n <= 300; ++n) {
    const std::vector<int> all = divisors(n);
    std::size_t next = 0;
    for (int d = 1; d <= n; ++d) {
      if (n % d != 0) continue;
      ASSERT_LT(next, all.size());
      EXPECT_EQ(all[next++], d);
    }
    EXPECT_EQ(next, all.size());
  }
}

TEST(Math, ThereIsOneNan) {
  for (const double nan : {std::nan(""), -std::nan(""), std::nan("7")})
    EXPECT_EQ(std::bit_cast<uint64_t>(one_nan(nan)), 0x7FF8000000000000U);
  for (const double value : {0.0, -0.0, 1.5, -HUGE_VAL})
    EXPECT_EQ(std::bit_cast<uint64_t>(one_nan(value)), std::bit_cast<uint64_t>(value));
}

}  // namespace
}  // namespace reshard::base
