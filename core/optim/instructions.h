#pragma once

// The choice of an instruction set, as core/device offers it: the kernels of this folder take one too.

#include "device/instructions.h"

namespace reshard::optim {

using device::best_instructions;
using device::Instructions;
using device::supported_instructions;

}  // namespace reshard::optim
