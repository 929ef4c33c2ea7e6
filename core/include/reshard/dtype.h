#pragma once

// The number formats of parameters and gradients. Values are stored little-endian; arithmetic on bf16 values is done in
// fp32 and rounded to the nearest bf16, ties to even.
//
// A bf16 is the upper half of a float: one sign bit, eight bits of exponent, seven of fraction. So it has a float's
// range, infinities and NaNs, and two to three decimal digits.

#include <bit>
#include <cstdint>

namespace reshard {

enum class Dtype : uint8_t { fp32, bf16 };

// "fp32", "bf16": as in a job file.
constexpr const char* name(Dtype dtype) {
  return dtype == Dtype::bf16 ? "bf16" : "fp32";
}

constexpr int64_t bytes_of(Dtype dtype) {
  return dtype == Dtype::bf16 ? 2 : 4;
}

// One bf16 value, as it lies in memory.
struct Bf16 {
  uint16_t bits = 0;

  Bf16() = default;
  // Rounds to nearest, ties to even; a NaN stays one.
  explicit constexpr Bf16(float value) {
    const auto full = std::bit_cast<uint32_t>(value);
    const bool nan = (full & 0x7FFFFFFFU) > 0x7F800000U;
    bits = static_cast<uint16_t>(nan ? (full >> 16U) | 0x40U : (full + 0x7FFFU + ((full >> 16U) & 1U)) >> 16U);
  }
  explicit constexpr operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16U); }
  bool operator==(const Bf16&) const = default;
};
static_assert(sizeof(Bf16) == 2);

}  // namespace reshard
