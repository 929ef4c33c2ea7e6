#pragma once

// Adds the ranks' values in the order and the format that communicator.h promises, a cache block at a time.
//
// Threads: any; tree_sum() keeps nothing and allocates nothing.

#include <cstddef>

#include "comm/communicator.h"
#include "device/device.h"
#include "device/instructions.h"
#include "reshard/dtype.h"

namespace reshard::comm {

struct Reduction {
  const void* const* inputs = nullptr;  // one per rank, `count` values each
  Dtype input_dtype = Dtype::fp32;
  int ranks = 0;
  size_t count = 0;
  void* output = nullptr;  // aligned for its format
  Dtype output_dtype = Dtype::fp32;
  ReduceOptions options = {};
  device::Store store = device::Store::kCached;
  device::Instructions instructions = device::best_instructions();
};

// output[i] = ([output[i] +] tree sum of inputs[0][i] … inputs[ranks - 1][i]) [* scale], i < count, in the format of
// the output: each term is brought to it before it is added, and in bf16 every result is rounded. All instruction sets
// give the same bits (of a NaN: that it is one), because additions are IEEE and never contracted. `output` may be one
// of the inputs where the formats are equal, unless it is added to.
void tree_sum(const Reduction& reduction);

}  // namespace reshard::comm
