#include "network.h"

#include <algorithm>

#include "attention.h"
#include "kernels.h"
#include "products.h"

namespace gpt {

namespace {

// Hands out pieces of one block of memory, each a multiple of 64 bytes long. Without memory it only counts.
template <typename Float>
class Pieces {
 public:
  explicit Pieces(Float* memory) : memory_(memory) {}
  Float* take(int64_t floats) {
    Float* piece = memory_ == nullptr ? nullptr : memory_ + used_;
    used_ += (floats + 15) / 16 * 16;
    return piece;
  }
  int64_t used() const { return used_; }

 private:
  Float* memory_;
  int64_t used_ = 0;
};

// What a block keeps from forward to backward. Float: float or const float.
template <typename Float>
struct SavedBlock {
  SavedBlock(const Shape& shape, Batch batch, Float* memory) : pieces(memory) {
    const int64_t n = batch.tokens(), d = shape.width;
    normed_1 = pieces.take(n * d);
    deviation_1 = pieces.take(n);
    qkv = pieces.take(n * 3 * d);
    probabilities = pieces.take(n * shape.heads * batch.length);
    attended = pieces.take(n * d);
    normed_2 = pieces.take(n * d);
    deviation_2 = pieces.take(n);
    up = pieces.take(n * 4 * d);
  }
  Pieces<Float> pieces;
  Float *normed_1, *deviation_1;  // the first norm, before gain and bias; one over its deviation
  Float* qkv;
  Float* probabilities;
  Float* attended;
  Float *normed_2, *deviation_2;
  Float* up;  // GELU's input
};

template <typename Float>
struct SavedHead {
  SavedHead(const Shape& shape, Batch batch, Float* memory) : pieces(memory) {
    normed = pieces.take(batch.tokens() * shape.width);
    deviation = pieces.take(batch.tokens());
    dlogits = pieces.take(batch.tokens() * shape.vocabulary);
  }
  Pieces<Float> pieces;
  Float *normed, *deviation;
  Float* dlogits;  // gradient of the mean loss by the logits
};

}  // namespace

int64_t block_saved_floats(const Shape& shape, Batch batch) {
  return SavedBlock<float>(shape, batch, nullptr).pieces.used();
}

int64_t head_saved_floats(const Shape& shape, Batch batch) {
  return SavedHead<float>(shape, batch, nullptr).pieces.used();
}

Workspace::Workspace(const Shape& shape, Batch batch, bool bf16, float* memory) {
  Pieces<float> pieces(memory);
  const int64_t n = batch.tokens(), d = shape.width;
  stream = pieces.take(n * d);
  narrow = pieces.take(n * d);
  gradient = pieces.take(n * d);
  wide = pieces.take(n * 4 * d);
  wide_other = pieces.take(n * 4 * d);
  scores = pieces.take(int64_t{std::min(kAttentionRows, batch.length)} * batch.length);
  if (bf16) {
    const int64_t values =
        std::max(Linear::rounded_values(n, d, 4 * d), Linear::rounded_values(n, d, shape.vocabulary));
    rounded = reinterpret_cast<reshard::Bf16*>(pieces.take((values + 1) / 2));
  }
  floats = pieces.used();
}

void embed_forward(const Shape& shape, Batch batch, const Embeddings<const float>& w, const int32_t* tokens, float* x) {
  const int64_t d = shape.width;
  for (int64_t i = 0; i < batch.tokens(); ++i) {
    kernels().add(d, w.tokens + tokens[i] * d, w.positions + i % batch.length * d, x + i * d);
  }
}

void embed_backward(const Shape& shape, Batch batch, const int32_t* tokens, const float* dx,
                    const Embeddings<float>& gradients) {
  const int64_t d = shape.width;
  for (int64_t i = 0; i < batch.tokens(); ++i) {
    kernels().add_to(d, dx + i * d, gradients.tokens + tokens[i] * d);
    kernels().add_to(d, dx + i * d, gradients.positions + i % batch.length * d);
  }
}

void block_forward(const Shape& shape, Batch batch, const Block<const float>& w, float* x, float* saved_memory,
                   Workspace& work) {
  const SavedBlock<float> saved(shape, batch, saved_memory);
  const Kernels& k = kernels();
  const int n = static_cast<int>(batch.tokens()), d = shape.width;

  k.norm_forward({n, d, x, w.ln_1_weight, w.ln_1_bias, saved.normed_1, saved.deviation_1, work.narrow});
  k.fill_rows(n, 3 * d, w.attn_bias, saved.qkv);
  linear({n, d, 3 * d, w.attn_weight, work.rounded}, work.narrow, saved.qkv, true);
  attention_forward(shape, batch, saved.qkv, saved.probabilities, saved.attended);
  k.add_to_rows(n, d, w.proj_bias, x);
  linear({n, d, d, w.proj_weight, work.rounded}, saved.attended, x, true);

  k.norm_forward({n, d, x, w.ln_2_weight, w.ln_2_bias, saved.normed_2, saved.deviation_2, work.narrow});
  k.fill_rows(n, 4 * d, w.fc_bias, saved.up);
  linear({n, d, 4 * d, w.fc_weight, work.rounded}, work.narrow, saved.up, true);
  k.gelu_forward(int64_t{n} * 4 * d, saved.up, work.wide);
  k.add_to_rows(n, d, w.out_bias, x);
  linear({n, 4 * d, d, w.out_weight, work.rounded}, work.wide, x, true);
}

void block_backward(const Shape& shape, Batch batch, const Block<const float>& w, const float* saved_memory, float* dx,
                    const Block<float>& g, Workspace& work) {
  const SavedBlock<const float> saved(shape, batch, saved_memory);
  const Kernels& k = kernels();
  const int n = static_cast<int>(batch.tokens()), d = shape.width;
  float* const dup = work.wide;
  float* const activated = work.wide_other;
  float* const dqkv = work.wide;
  const Linear attn{n, d, 3 * d, w.attn_weight, work.rounded}, proj{n, d, d, w.proj_weight, work.rounded};
  const Linear fc{n, d, 4 * d, w.fc_weight, work.rounded}, out{n, 4 * d, d, w.out_weight, work.rounded};

  // dx enters as the gradient of the block's output: both that of the last linear layer and of the residual.
  linear_input_gradient(out, dx, dup);
  k.gelu_backward(int64_t{n} * 4 * d, saved.up, dup, activated);
  add_weight_gradient(out, activated, dx, g.out_weight);
  k.add_row_sum(n, d, dx, g.out_bias);
  linear_input_gradient(fc, dup, work.gradient);
  k.norm_backward({n, d, saved.normed_2, saved.deviation_2, w.ln_2_weight, w.ln_2_bias, work.gradient, dx,
                   g.ln_2_weight, g.ln_2_bias, work.narrow});
  add_weight_gradient(fc, work.narrow, dup, g.fc_weight);
  k.add_row_sum(n, 4 * d, dup, g.fc_bias);

  add_weight_gradient(proj, saved.attended, dx, g.proj_weight);
  k.add_row_sum(n, d, dx, g.proj_bias);
  linear_input_gradient(proj, dx, work.gradient);
  attention_backward(shape, batch, saved.qkv, saved.probabilities, work.gradient, dqkv, work.scores);
  linear_input_gradient(attn, dqkv, work.gradient);
  k.norm_backward({n, d, saved.normed_1, saved.deviation_1, w.ln_1_weight, w.ln_1_bias, work.gradient, dx,
                   g.ln_1_weight, g.ln_1_bias, work.narrow});
  add_weight_gradient(attn, work.narrow, dqkv, g.attn_weight);
  k.add_row_sum(n, 3 * d, dqkv, g.attn_bias);
}

double head_forward(const Shape& shape, Batch batch, const Head<const float>& w, const float* x, const int32_t* targets,
                    float* saved_memory, Workspace& work) {
  const SavedHead<float> saved(shape, batch, saved_memory);
  const Kernels& k = kernels();
  const int n = static_cast<int>(batch.tokens()), d = shape.width, vocabulary = shape.vocabulary;
  k.norm_forward({n, d, x, w.ln_f_weight, w.ln_f_bias, saved.normed, saved.deviation, work.narrow});
  linear({n, d, vocabulary, w.matrix, work.rounded, true}, work.narrow, saved.dlogits, false);
  const double sum = k.cross_entropy(n, vocabulary, 1.0F / static_cast<float>(n), targets, saved.dlogits);
  return sum / n;
}

void head_backward(const Shape& shape, Batch batch, const Head<const float>& w, const float* saved_memory, float* dx,
                   const Head<float>& g, Workspace& work) {
  const SavedHead<const float> saved(shape, batch, saved_memory);
  const int n = static_cast<int>(batch.tokens()), d = shape.width, vocabulary = shape.vocabulary;
  const Linear head{n, d, vocabulary, w.matrix, work.rounded, true};
  linear_input_gradient(head, saved.dlogits, work.gradient);
  std::fill_n(dx, int64_t{n} * d, 0.0F);
  kernels().norm_backward({n, d, saved.normed, saved.deviation, w.ln_f_weight, w.ln_f_bias, work.gradient, dx,
                           g.ln_f_weight, g.ln_f_bias, work.narrow});
  add_weight_gradient(head, work.narrow, saved.dlogits, g.matrix);
}

void head_logits(const Shape& shape, const Head<const float>& w, const float* x_row, float* logits, Workspace& work) {
  const int d = shape.width;
  float inverse_deviation = 0;
  kernels().norm_forward({1, d, x_row, w.ln_f_weight, w.ln_f_bias, work.gradient, &inverse_deviation, work.narrow});
  linear({1, d, shape.vocabulary, w.matrix, work.rounded, true}, work.narrow, logits, false);
}

double block_flops(const Shape& shape, Batch batch) {
  const double n = static_cast<double>(batch.tokens()), d = shape.width;
  return 2 * n * d * 12 * d + 2 * n * batch.length * 2 * d;
}

double head_flops(const Shape& shape, Batch batch) {
  return 2.0 * static_cast<double>(batch.tokens()) * shape.width * shape.vocabulary;
}

}  // namespace gpt
