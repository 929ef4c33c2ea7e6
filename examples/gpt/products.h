#pragma once

// Matrix products, row-major: fp32 ones on OpenBLAS, bf16 ones on oneDNN where it was found and the processor
// multiplies bf16. Every rank is one thread and computes on it alone, so both libraries are told to use a single one.
// Sums are fp32 in either case.
//
// Thread rules: may be called by several threads at once. Equal inputs give equal bits.

#include <cstdint>

#include "reshard/dtype.h"

namespace gpt {

struct Operand {
  const float* data;
  int stride;  // floats from row to row as it lies in memory
  bool transposed = false;
};

// out [m, n] (+)= a [m, k] · b [k, n]; `stride` is out's.
struct Product {
  int m, n, k;
  Operand a, b;
  float* out;
  int stride;
  bool add = false;
};

void multiply(const Product& product);

// Whether weights may be bf16 in what follows: then both operands of a product are rounded to bf16.
bool multiplies_bf16();

// A matrix as its unit holds it: one of the two.
struct Weights {
  Weights(const float* values) : fp32(values) {}
  Weights(const reshard::Bf16* values) : bf16(values) {}
  const float* fp32 = nullptr;
  const reshard::Bf16* bf16 = nullptr;
};

// A linear layer on so many rows; all of them dense. Its weights are [in, out], or [out, in] where they are turned.
struct Linear {
  int rows, in, out;
  Weights weights;
  reshard::Bf16* rounded;  // memory for rounded_values() of them; not used by a layer of fp32 weights
  bool turned = false;

  // Of a layer on so many rows: its rows on either side.
  static int64_t rounded_values(int64_t rows, int64_t in, int64_t out) { return rows * (in + out); }
};

void linear(const Linear&, const float* x, float* y, bool add);                            // y (+)= x W
void linear_input_gradient(const Linear&, const float* dy, float* dx);                     // dx = dy Wᵀ
void add_weight_gradient(const Linear&, const float* x, const float* dy, float* dweight);  // dW += xᵀ dy

}  // namespace gpt
