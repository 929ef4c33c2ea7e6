#pragma once

// The functions behind kernels.h, written once against vec.h. Included by kernels_avx512.cpp, kernels_avx2.cpp and
// kernels_scalar.cpp only, each compiled for its own instruction set; see vec.h for the rules that follow from it.

#include "kernels.h"
#include "vec.h"

namespace gpt {
namespace {

// sum over n elements of term(load at i): four partial sums, so that additions do not wait for each other.
template <class Term>
inline float sum_over(int64_t n, Term term) {
  Vec s[4] = {set(0), set(0), set(0), set(0)};
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    for (int k = 0; k < 4; ++k) s[k] = s[k] + term(i + k * kLanes, kLanes);
  }
  for (; i < n; i += kLanes) {
    const int count = n - i < kLanes ? static_cast<int>(n - i) : kLanes;
    s[0] = s[0] + term(i, count);
  }
  return sum((s[0] + s[1]) + (s[2] + s[3]));
}

// Loads and stores that touch `n` lanes, with the short path where that is all of them.
inline Vec load_n(const float* p, int n) {
  return n == kLanes ? load(p) : load_part(p, n);
}
inline void store_n(float* p, Vec a, int n) {
  n == kLanes ? store(p, a) : store_part(p, a, n);
}

// body(i, lanes) over n elements.
template <class Body>
inline void each(int64_t n, Body body) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(i, kLanes);
  if (i < n) body(i, static_cast<int>(n - i));
}

void norm_forward(const NormForward& a) {
  const float per_element = 1.0F / static_cast<float>(a.width);
  for (int64_t r = 0; r < a.rows; ++r) {
    const float* x = a.x + r * a.width;
    float* normed = a.normed + r * a.width;
    float* out = a.out + r * a.width;
    const float mean = sum_over(a.width, [&](int64_t i, int n) { return load_n(x + i, n); }) * per_element;
    // The lanes past the end of a row must not count, so they are centred by subtracting and stored before squaring.
    each(a.width, [&](int64_t i, int n) { store_n(normed + i, load_n(x + i, n) - set(mean), n); });
    const float variance = sum_over(a.width,
                                    [&](int64_t i, int n) {
                                      const Vec d = load_n(normed + i, n);
                                      return d * d;
                                    }) *
                           per_element;
    const float inverse = 1.0F / __builtin_sqrtf(variance + kNormEpsilon);
    a.inverse_deviation[r] = inverse;
    each(a.width, [&](int64_t i, int n) {
      const Vec hat = load_n(normed + i, n) * set(inverse);
      store_n(normed + i, hat, n);
      store_n(out + i, fma(hat, load_n(a.gain + i, n), load_n(a.bias + i, n)), n);
    });
  }
}

void norm_backward(const NormBackward& a) {
  const float per_element = 1.0F / static_cast<float>(a.width);
  for (int64_t r = 0; r < a.rows; ++r) {
    const float* hat = a.normed + r * a.width;
    const float* dout = a.dout + r * a.width;
    float* dx = a.dx + r * a.width;
    float* out = a.out + r * a.width;
    const float mean =
        per_element * sum_over(a.width, [&](int64_t i, int n) { return load_n(dout + i, n) * load_n(a.gain + i, n); });
    const float slope = per_element * sum_over(a.width, [&](int64_t i, int n) {
                          return load_n(dout + i, n) * load_n(a.gain + i, n) * load_n(hat + i, n);
                        });
    const Vec inverse = set(a.inverse_deviation[r]);
    each(a.width, [&](int64_t i, int n) {
      const Vec d = load_n(dout + i, n), h = load_n(hat + i, n), gain = load_n(a.gain + i, n);
      const Vec centred = fma(h, set(-slope), fma(d, gain, set(-mean)));
      store_n(dx + i, fma(centred, inverse, load_n(dx + i, n)), n);
      store_n(a.dgain + i, fma(d, h, load_n(a.dgain + i, n)), n);
      store_n(a.dbias + i, load_n(a.dbias + i, n) + d, n);
      store_n(out + i, fma(h, gain, load_n(a.bias + i, n)), n);
    });
  }
}

// gelu(u) = u/2 (1 + tanh z) = u * sigmoid(2z), z = sqrt(2/pi) (u + 0.044715 u^3): one exp, and no difference of near
// equals anywhere.
constexpr float kSlope = 1.5957691216057308F;  // 2 sqrt(2/pi)
constexpr float kCubic = 0.044715F;

inline Vec exp_minus_two_z(Vec u) {
  return exp(u * set(-kSlope) * fma(u * u, set(kCubic), set(1.0F)));
}

void gelu_forward(int64_t n, const float* u, float* out) {
  each(n, [&](int64_t i, int lanes) {
    const Vec x = load_n(u + i, lanes);
    store_n(out + i, x * (set(1.0F) / (set(1.0F) + exp_minus_two_z(x))), lanes);
  });
}

void gelu_backward(int64_t n, const float* u, float* du, float* out) {
  each(n, [&](int64_t i, int lanes) {
    const Vec x = load_n(u + i, lanes), e = exp_minus_two_z(x);
    const Vec gate = set(1.0F) / (set(1.0F) + e);                            // sigmoid(2z); 1 - gate = e gate
    const Vec dz = set(kSlope) * fma(x * x, set(3.0F * kCubic), set(1.0F));  // of 2z by u
    const Vec activated = x * gate;
    const Vec slope = fma(activated * (e * gate), dz, gate);
    store_n(out + i, activated, lanes);
    store_n(du + i, load_n(du + i, lanes) * slope, lanes);
  });
}

void add(int64_t n, const float* a, const float* b, float* out) {
  each(n, [&](int64_t i, int lanes) { store_n(out + i, load_n(a + i, lanes) + load_n(b + i, lanes), lanes); });
}

void add_to(int64_t n, const float* a, float* sum_of) {
  add(n, a, sum_of, sum_of);
}

void fill_rows(int64_t rows, int64_t width, const float* bias, float* out) {
  for (int64_t r = 0; r < rows; ++r) {
    each(width, [&](int64_t i, int lanes) { store_n(out + r * width + i, load_n(bias + i, lanes), lanes); });
  }
}

void add_to_rows(int64_t rows, int64_t width, const float* bias, float* x) {
  for (int64_t r = 0; r < rows; ++r) add_to(width, bias, x + r * width);
}

void add_row_sum(int64_t rows, int64_t width, const float* dy, float* bias_gradient) {
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const float* a = dy + r * width;
    each(width, [&](int64_t i, int n) {
      const Vec low = load_n(a + i, n) + load_n(a + width + i, n);
      const Vec high = load_n(a + 2 * width + i, n) + load_n(a + 3 * width + i, n);
      store_n(bias_gradient + i, load_n(bias_gradient + i, n) + (low + high), n);
    });
  }
  for (; r < rows; ++r) add_to(width, dy + r * width, bias_gradient);
}

void causal_softmax(const CausalRows& a, float* scores) {
  for (int64_t r = 0; r < a.rows; ++r) {
    float* row = scores + r * a.stride;
    const int64_t seen = a.first + r + 1;
    float top = row[0];
    int64_t whole = seen / kLanes * kLanes;
    if (whole > 0) {
      Vec m = load(row);
      for (int64_t i = kLanes; i < whole; i += kLanes) m = max(m, load(row + i));
      top = largest(m);
    }
    for (int64_t i = whole; i < seen; ++i) top = row[i] > top ? row[i] : top;
    each(seen, [&](int64_t i, int n) {
      store_n(row + i, exp(fma(load_n(row + i, n), set(a.scale), set(-top * a.scale))), n);
    });
    const Vec share = set(1.0F / sum_over(seen, [&](int64_t i, int n) { return load_n(row + i, n); }));
    each(seen, [&](int64_t i, int n) { store_n(row + i, load_n(row + i, n) * share, n); });
    for (int64_t i = seen; i < a.columns; ++i) row[i] = 0;
  }
}

void causal_softmax_backward(const CausalRows& a, const float* probabilities, float* dscores) {
  for (int64_t r = 0; r < a.rows; ++r) {
    const float* p = probabilities + r * a.stride;
    float* d = dscores + r * a.stride;
    const int64_t seen = a.first + r + 1;
    const Vec mean = set(sum_over(seen, [&](int64_t i, int n) { return load_n(p + i, n) * load_n(d + i, n); }));
    each(seen,
         [&](int64_t i, int n) { store_n(d + i, load_n(p + i, n) * (load_n(d + i, n) - mean) * set(a.scale), n); });
    for (int64_t i = seen; i < a.columns; ++i) d[i] = 0;
  }
}

double cross_entropy(int64_t rows, int64_t width, float scale, const int32_t* targets, float* logits) {
  double loss = 0;
  for (int64_t r = 0; r < rows; ++r) {
    float* row = logits + r * width;
    float top = row[0];
    for (int64_t i = 1; i < width; ++i) top = row[i] > top ? row[i] : top;
    const float right = row[targets[r]];
    each(width, [&](int64_t i, int n) { store_n(row + i, exp(load_n(row + i, n) - set(top)), n); });
    const float total = sum_over(width, [&](int64_t i, int n) { return load_n(row + i, n); });
    loss += __builtin_log(static_cast<double>(total)) + (static_cast<double>(top) - static_cast<double>(right));
    const Vec share = set(scale / total);
    each(width, [&](int64_t i, int n) { store_n(row + i, load_n(row + i, n) * share, n); });
    row[targets[r]] -= scale;
  }
  return loss;
}

constexpr Kernels table(const char* name) {
  return {.name = name,
          .norm_forward = norm_forward,
          .norm_backward = norm_backward,
          .gelu_forward = gelu_forward,
          .gelu_backward = gelu_backward,
          .fill_rows = fill_rows,
          .add_to_rows = add_to_rows,
          .add_row_sum = add_row_sum,
          .add_to = add_to,
          .add = add,
          .causal_softmax = causal_softmax,
          .causal_softmax_backward = causal_softmax_backward,
          .cross_entropy = cross_entropy};
}

}  // namespace
}  // namespace gpt
