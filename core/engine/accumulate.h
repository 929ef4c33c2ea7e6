#pragma once

// Local arithmetic on gradients in either dtype: sums in one order, element by element, so that results depend on
// nothing else. Pure functions.

#include <cstdint>

#include "reshard/dtype.h"

namespace reshard::engine {

// to[i] = from[i], or to[i] + from[i] where `add`. The term is converted to the target's dtype first, and the sum is
// taken in that dtype. The memories hold `count` values and do not overlap.
void accumulate(const void* from, Dtype from_dtype, void* to, Dtype to_dtype, int64_t count, bool add);

// values[i] *= factor, in the values' dtype.
void scale(void* values, Dtype dtype, int64_t count, float factor);

}  // namespace reshard::engine
