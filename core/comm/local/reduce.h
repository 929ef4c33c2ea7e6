#pragma once

// Adds the ranks' values in the order that communicator.h promises, a cache block at a time.

#include <cstddef>

#include "comm/communicator.h"
#include "device/device.h"

namespace reshard::comm {

// output[i] = ([output[i] +] tree sum of inputs[0][i] … inputs[ranks - 1][i]) [* scale], i < count. Every instruction
// set gives the same bits: additions are IEEE and never contracted. `output` may be one of the inputs unless it is
// added to.
void tree_sum(const float* const* inputs, int ranks, size_t count, float* output, const ReduceOptions& options,
              device::Store store);

}  // namespace reshard::comm
