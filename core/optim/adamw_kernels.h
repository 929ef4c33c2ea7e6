#pragma once

// The loops of AdamW, one per instruction set, with equal bits (adamw.h has the formula). Pure functions, any thread.

#include <cstdint>

#include "optim/instructions.h"

namespace reshard::optim {

// adamw.h's constants, already rounded to fp32.
struct AdamWNumbers {
  float gradient_scale, keep;        // keep = 1 - lr * weight_decay
  float gradient_to_mean;            // 1 - beta1
  float beta2, gradient_to_square;   // gradient_to_square = 1 - beta2
  float step_size, root_scale, eps;  // lr / bias correction 1; 1 / sqrt(bias correction 2)
};

// Arrays of `length` elements, aligned to 4 bytes, which do not overlap.
struct AdamWArrays {
  float* values;
  const float* gradient;
  float* mean;
  float* square;
  int64_t length;
};

void adamw_update(const AdamWArrays& arrays, const AdamWNumbers& numbers, Instructions set);

}  // namespace reshard::optim
