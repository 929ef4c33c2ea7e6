#include "attention.h"

#include <algorithm>
#include <cmath>

#include "kernels.h"
#include "products.h"

namespace gpt {

namespace {

// Where one head of one sequence begins, in [tokens, 3d], [tokens, d] and among the probabilities.
struct Place {
  int64_t qkv, out, probabilities;
};

template <typename Body>
void for_each_head(const Shape& shape, Batch batch, Body body) {
  const int64_t length = batch.length, width = shape.width;
  for (int64_t s = 0; s < batch.sequences; ++s) {
    for (int64_t h = 0; h < shape.heads; ++h) {
      const int64_t column = h * shape.head_width();
      body(Place{.qkv = s * length * 3 * width + column,
                 .out = s * length * width + column,
                 .probabilities = (s * shape.heads + h) * length * length});
    }
  }
}

CausalRows rows_of(const Shape& shape, Batch batch, int first) {
  const int rows = std::min(kAttentionRows, batch.length - first);
  return {.rows = rows,
          .columns = first + rows,
          .stride = batch.length,
          .first = first,
          .scale = 1.0F / std::sqrt(static_cast<float>(shape.head_width()))};
}

}  // namespace

void attention_forward(const Shape& shape, Batch batch, const float* qkv, float* probabilities, float* out) {
  const int d = shape.width, size = shape.head_width(), length = batch.length;
  for_each_head(shape, batch, [&](Place at) {
    const float* q = qkv + at.qkv;
    const float* k = q + d;
    const float* v = k + d;
    for (int first = 0; first < length; first += kAttentionRows) {
      const CausalRows block = rows_of(shape, batch, first);
      const int rows = static_cast<int>(block.rows), columns = static_cast<int>(block.columns);
      float* p = probabilities + at.probabilities + int64_t{first} * length;
      multiply({rows, columns, size, {q + int64_t{first} * 3 * d, 3 * d}, {k, 3 * d, true}, p, length});
      kernels().causal_softmax(block, p);
      multiply({rows, size, columns, {p, length}, {v, 3 * d}, out + at.out + int64_t{first} * d, d});
    }
  });
}

void attention_backward(const Shape& shape, Batch batch, const float* qkv, const float* probabilities,
                        const float* dout, float* dqkv, float* scores) {
  const int d = shape.width, size = shape.head_width(), length = batch.length;
  for_each_head(shape, batch, [&](Place at) {
    const float* q = qkv + at.qkv;
    const float* k = q + d;
    const float* v = k + d;
    float* dq = dqkv + at.qkv;
    float* dk = dq + d;
    float* dv = dk + d;
    // The last block of rows sees every column, so it comes first and sets dk and dv; the others add to them.
    const int last = (length - 1) / kAttentionRows * kAttentionRows;
    for (int first = last; first >= 0; first -= kAttentionRows) {
      const CausalRows block = rows_of(shape, batch, first);
      const int rows = static_cast<int>(block.rows), columns = static_cast<int>(block.columns);
      const int64_t row = int64_t{first} * 3 * d;
      const float* p = probabilities + at.probabilities + int64_t{first} * length;
      const float* dy = dout + at.out + int64_t{first} * d;
      multiply({columns, size, rows, {p, length, true}, {dy, d}, dv, 3 * d, first != last});
      multiply({rows, columns, size, {dy, d}, {v, 3 * d, true}, scores, length});
      kernels().causal_softmax_backward(block, p, scores);
      multiply({rows, size, columns, {scores, length}, {k, 3 * d}, dq + row, 3 * d});
      multiply({columns, size, rows, {scores, length, true}, {q + row, 3 * d}, dk, 3 * d, first != last});
    }
  });
}

}  // namespace gpt
