#pragma once

// Arithmetic that every layer needs.

#include <cmath>
#include <cstdint>
#include <vector>

namespace reshard::base {

// Smallest multiple of `step` that is >= value. REQUIRES: value >= 0, step > 0, and that the result fits.
constexpr int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

constexpr int64_t ceil_div(int64_t value, int64_t by) { return (value + by - 1) / by; }

// All divisors of n in rising order, 1 and n included. REQUIRES: n >= 1.
std::vector<int> divisors(int n);

// A NaN's sign and payload mean nothing to anybody, and are printed and compared as bits all the same: there is one
// NaN.
inline double one_nan(double value) {
  return std::isnan(value) ? std::nan("") : value;
}

}  // namespace reshard::base
