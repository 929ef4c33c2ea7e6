#include "products.h"

#include <cblas.h>

#include "products_bf16.h"

namespace gpt {

using reshard::Bf16;

void multiply(const Product& p) {
  static const bool one_thread = (openblas_set_num_threads(1), true);
  (void)one_thread;
  cblas_sgemm(CblasRowMajor, p.a.transposed ? CblasTrans : CblasNoTrans, p.b.transposed ? CblasTrans : CblasNoTrans,
              p.m, p.n, p.k, 1.0F, p.a.data, p.a.stride, p.b.data, p.b.stride, p.add ? 1.0F : 0.0F, p.out, p.stride);
}

void linear(const Linear& l, const float* x, float* y, bool add) {
  const int stride = l.turned ? l.in : l.out;
  if (l.weights.bf16 == nullptr)
    return multiply({l.rows, l.out, l.in, {x, l.in}, {l.weights.fp32, stride, l.turned}, y, l.out, add});
  const Bf16* const narrow = round(x, l.rows, l.in, l.rounded);
  multiply({l.rows, l.out, l.in, {narrow, l.in}, {l.weights.bf16, stride, l.turned}, y, l.out, add});
}

void linear_input_gradient(const Linear& l, const float* dy, float* dx) {
  const int stride = l.turned ? l.in : l.out;
  if (l.weights.bf16 == nullptr)
    return multiply({l.rows, l.in, l.out, {dy, l.out}, {l.weights.fp32, stride, !l.turned}, dx, l.in});
  const Bf16* const narrow = round(dy, l.rows, l.out, l.rounded);
  multiply({l.rows, l.in, l.out, {narrow, l.out}, {l.weights.bf16, stride, !l.turned}, dx, l.in, false});
}

void add_weight_gradient(const Linear& l, const float* x, const float* dy, float* dweight) {
  const float *left = l.turned ? dy : x, *right = l.turned ? x : dy;
  const int m = l.turned ? l.out : l.in, n = l.turned ? l.in : l.out;
  if (l.weights.bf16 == nullptr) return multiply({m, n, l.rows, {left, m, true}, {right, n}, dweight, n, true});
  const Bf16* const narrow_left = round(left, l.rows, m, l.rounded);
  const Bf16* const narrow_right = round(right, l.rows, n, l.rounded + int64_t{l.rows} * m);
  multiply({m, n, l.rows, {narrow_left, m, true}, {narrow_right, n}, dweight, n, true});
}

}  // namespace gpt
