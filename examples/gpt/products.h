#pragma once

// Matrix products on OpenBLAS, row-major fp32. Every rank is one thread and computes on it alone, so OpenBLAS is told
// once to use a single one. Thread rules: may be called by several threads at once. Equal inputs give equal bits.

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

// A linear layer of weights [in, out] on so many rows; all of them dense.
struct Linear {
  int rows, in, out;
};
void add_linear(Linear, const float* x, const float* weight, float* y);               // y += x W
void linear_input_gradient(Linear, const float* dy, const float* weight, float* dx);  // dx = dy Wᵀ
void add_weight_gradient(Linear, const float* x, const float* dy, float* dweight);    // dW += xᵀ dy

}  // namespace gpt
