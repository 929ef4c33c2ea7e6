#pragma once

// bf16 products of products.h. REQUIRES of both functions: multiplies_bf16().

#include <cstdint>

#include "products.h"

namespace gpt {

struct NarrowOperand {
  const reshard::Bf16* data;
  int stride;
  bool transposed = false;
};

// As Product. The operands are bf16, sums and result fp32.
struct NarrowProduct {
  int m, n, k;
  NarrowOperand a, b;
  float* out;
  int stride;
  bool add;
};

void multiply(const NarrowProduct& product);

// Rounds a dense matrix into `narrow`, which it returns.
const reshard::Bf16* round(const float* values, int64_t rows, int64_t columns, reshard::Bf16* narrow);

}  // namespace gpt
