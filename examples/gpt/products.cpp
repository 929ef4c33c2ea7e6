#include "products.h"

#include <cblas.h>

namespace gpt {

void multiply(const Product& p) {
  static const bool one_thread = (openblas_set_num_threads(1), true);
  (void)one_thread;
  cblas_sgemm(CblasRowMajor, p.a.transposed ? CblasTrans : CblasNoTrans, p.b.transposed ? CblasTrans : CblasNoTrans,
              p.m, p.n, p.k, 1.0F, p.a.data, p.a.stride, p.b.data, p.b.stride, p.add ? 1.0F : 0.0F, p.out, p.stride);
}

void add_linear(Linear l, const float* x, const float* weight, float* y) {
  multiply({l.rows, l.out, l.in, {x, l.in}, {weight, l.out}, y, l.out, true});
}

void linear_input_gradient(Linear l, const float* dy, const float* weight, float* dx) {
  multiply({l.rows, l.in, l.out, {dy, l.out}, {weight, l.out, true}, dx, l.in, false});
}

void add_weight_gradient(Linear l, const float* x, const float* dy, float* dweight) {
  multiply({l.in, l.out, l.rows, {x, l.in, true}, {dy, l.out}, dweight, l.out, true});
}

}  // namespace gpt
