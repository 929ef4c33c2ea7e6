#pragma once

// Everything of GPT-2 that is not a matrix product: norms, GELU, softmax, cross entropy, sums of rows. One table of
// functions per instruction set; kernels() is the widest that this processor has. All matrices are row-major fp32.
// Thread rules: pure functions of what they are given, so every rank's thread may call them at once. The same input
// gives the same bits whatever the addresses; another instruction set adds in another order and may differ in the last
// bits.

#include <stdint.h>

namespace gpt {

constexpr float kNormEpsilon = 1e-5F;

struct NormForward {
  int64_t rows, width;
  const float* x;            // [rows, width]
  const float* gain;         // [width]
  const float* bias;         // [width]
  float* normed;             // [rows, width] (x - mean) / deviation: what backward needs
  float* inverse_deviation;  // [rows]
  float* out;                // [rows, width] normed * gain + bias
};

struct NormBackward {
  int64_t rows, width;
  const float* normed;             // as forward left it
  const float* inverse_deviation;  // as forward left it
  const float* gain;
  const float* bias;
  const float* dout;  // [rows, width]
  float* dx;          // [rows, width] is added to
  float* dgain;       // [width] is added to
  float* dbias;       // [width] is added to
  float* out;         // [rows, width] forward's output once more, for the gradient of the weights that read it
};

// Rows of attention: row i of the block stands at position first + i and sees columns 0 … first + i of `columns`.
struct CausalRows {
  int64_t rows, columns, stride;  // stride: floats from row to row, of every matrix here
  int64_t first;
  float scale;
};

struct Kernels {
  const char* name;  // "avx512", "avx2", "scalar"

  void (*norm_forward)(const NormForward&);
  void (*norm_backward)(const NormBackward&);

  // out = gelu(u), the tanh approximation, over n elements.
  void (*gelu_forward)(int64_t n, const float* u, float* out);
  // du: holds the gradient of gelu's output and becomes that of u. out = gelu(u) once more.
  void (*gelu_backward)(int64_t n, const float* u, float* du, float* out);

  // out[r] = bias for each of the rows; x[r] += bias; bias_gradient += the sum of the rows of dy.
  void (*fill_rows)(int64_t rows, int64_t width, const float* bias, float* out);
  void (*add_to_rows)(int64_t rows, int64_t width, const float* bias, float* x);
  void (*add_row_sum)(int64_t rows, int64_t width, const float* dy, float* bias_gradient);

  // sum += a; out = a + b, over n elements.
  void (*add_to)(int64_t n, const float* a, float* sum);
  void (*add)(int64_t n, const float* a, const float* b, float* out);

  // Scores become probabilities, in place: softmax of scale * score over the columns that a row sees, 0 in the others.
  void (*causal_softmax)(const CausalRows&, float* scores);
  // dscores: holds the gradient of the probabilities and becomes that of the scores before scaling; 0 where unseen.
  void (*causal_softmax_backward)(const CausalRows&, const float* probabilities, float* dscores);

  // Returns the sum over the rows of -log softmax(logits[r])[targets[r]]. The logits [rows, width] become
  // scale * (softmax - one-hot target), the gradient of scale * that sum.
  double (*cross_entropy)(int64_t rows, int64_t width, float scale, const int32_t* targets, float* logits);
};

const Kernels& kernels();

// All that this processor can run, widest first; returns how many. For tests.
int available_kernels(const Kernels* (&tables)[3]);

}  // namespace gpt
