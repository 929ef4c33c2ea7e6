// convert and add give the bits of Bf16's own conversions with every instruction set that this machine has, for every
// value of bf16, for fp32 values around every rounding case, at any size and alignment.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "device/device.h"

namespace reshard::device {
namespace {

class Casts : public testing::TestWithParam<Instructions> {};

uint32_t bits(float value) {
  return std::bit_cast<uint32_t>(value);
}

// All upper halves with the lower halves at which rounding turns: below, at and above a tie, the smallest, the largest.
std::vector<float> turning_points() {
  constexpr uint32_t kLower[] = {0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF};
  std::vector<float> values;
  for (uint32_t upper = 0; upper < 0x10000; ++upper) {
    for (const uint32_t lower : kLower) values.push_back(std::bit_cast<float>(upper << 16U | lower));
  }
  return values;
}

std::vector<Bf16> all_of_bf16() {
  std::vector<Bf16> values(0x10000);
  for (size_t i = 0; i < values.size(); ++i) values[i].bits = static_cast<uint16_t>(i);
  return values;
}

// The rounding's own definition, in fp64, which holds every fp32 value and every midpoint exactly.
TEST(Bf16, is_the_nearest_value_and_ties_are_even) {
  for (const float value : turning_points()) {
    const auto rounded = static_cast<float>(Bf16(value));
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(rounded)) << std::hex << bits(value);
      continue;
    }
    ASSERT_EQ(std::signbit(rounded), std::signbit(value));
    ASSERT_TRUE(!std::isinf(value) || rounded == value);
    const uint32_t below = bits(value) & 0x7FFF0000U, above = below + 0x10000U;
    if (above >= 0x7F800000U) continue;  // towards infinity: as if the exponent went on, which fp64 has no float for
    const double low = std::bit_cast<float>(below), high = std::bit_cast<float>(above);
    const double from_low = std::abs(double{value}) - low, from_high = high - std::abs(double{value});
    const bool up = from_high < from_low || (from_high == from_low && (below >> 16U) % 2 == 1);
    ASSERT_EQ(bits(std::abs(rounded)), up ? above : below) << std::hex << bits(value);
  }
}

TEST_P(Casts, round_as_one_value_does) {
  const std::vector<float> from = turning_points();
  std::vector<Bf16> to(from.size());
  convert(from.data(), to.data(), from.size(), GetParam());
  for (size_t i = 0; i < from.size(); ++i) ASSERT_EQ(to[i].bits, Bf16(from[i]).bits) << std::hex << bits(from[i]);
}

TEST_P(Casts, widen_every_value_exactly) {
  const std::vector<Bf16> from = all_of_bf16();
  std::vector<float> to(from.size());
  convert(from.data(), to.data(), from.size(), GetParam());
  for (size_t i = 0; i < from.size(); ++i) ASSERT_EQ(bits(to[i]), i << 16U);
}

// Numbers only: which of two NaNs a sum is, is the compiler's choice.
bool same(float a, float b) {
  return bits(a) == bits(b) || (std::isnan(a) && std::isnan(b));
}

TEST_P(Casts, add_in_fp32) {
  std::mt19937 random(5);
  const std::vector<Bf16> halves = all_of_bf16();
  std::vector<float> singles, start;
  for (size_t i = 0; i < halves.size(); ++i) {
    singles.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
    start.push_back(random() % 2 == 0 ? static_cast<float>(halves[i]) * 0.75F
                                      : std::bit_cast<float>(static_cast<uint32_t>(random())));
  }
  std::vector<float> with_halves = start, with_singles = start;
  add(halves.data(), with_halves.data(), start.size(), GetParam());
  add(singles.data(), with_singles.data(), start.size(), GetParam());
  for (size_t i = 0; i < start.size(); ++i) {
    ASSERT_TRUE(same(with_halves[i], start[i] + static_cast<float>(halves[i]))) << i;
    ASSERT_TRUE(same(with_singles[i], start[i] + singles[i])) << i;
  }
}

TEST_P(Casts, touch_exactly_the_range) {
  constexpr size_t kMargin = 40;
  for (size_t count = 0; count < 100; ++count) {
    for (size_t shift = 0; shift < 9; ++shift) {
      const std::vector<float> ones(count + shift, 1.0F);
      std::vector<Bf16> halves(count + shift + kMargin, Bf16(7.0F));
      std::vector<float> singles(count + shift + kMargin, 7.0F);
      convert(ones.data() + shift, halves.data() + shift, count, GetParam());
      convert(halves.data() + shift, singles.data() + shift, count, GetParam());
      add(halves.data() + shift, singles.data() + shift, count, GetParam());
      add(ones.data() + shift, singles.data() + shift, count, GetParam());
      for (size_t i = 0; i < halves.size(); ++i) {
        const bool inside = i >= shift && i < shift + count;
        ASSERT_EQ(halves[i], Bf16(inside ? 1.0F : 7.0F)) << count << " values from " << shift << ", at " << i;
        ASSERT_EQ(singles[i], inside ? 3.0F : 7.0F) << count << " values from " << shift << ", at " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(sets, Casts, testing::ValuesIn(supported_instructions()),
                         [](const auto& set) { return name(set.param); });

}  // namespace
}  // namespace reshard::device
