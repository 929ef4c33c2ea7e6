#pragma once

// GPT-2, forward and backward by hand, in pieces that a runtime can drive one after another: embed, block, head, and
// their backward halves. x is the residual stream [tokens, width], changed in place by each piece; dx is its gradient.
// What backward needs of a piece's forward pass is written to `saved` (embed: nothing); scratch memory is a Workspace.
// Gradients are added to, never overwritten. Nothing here allocates.
//
// Thread rules: functions of what they are given; each rank's thread has its own Workspace, saved memory and x. Equal
// inputs give equal bits, whatever the addresses. Memory from the caller is aligned to 64 bytes.

#include <cstdint>
#include <type_traits>
#include <vector>

#include "products.h"

namespace gpt {

struct Shape {
  int layers = 4;
  int width = 256;  // a multiple of heads
  int heads = 8;
  int sequence = 128;  // positions
  int vocabulary = 256;
  bool tied = true;  // the head's matrix is the token embedding

  int head_width() const { return width / heads; }
};

// Some sequences of one length, laid one after another: a micro-batch of one rank, or a prompt.
struct Batch {
  int sequences = 1;
  int length = 1;  // <= Shape::sequence

  // The most tokens that the functions below take.
  static constexpr int64_t kMostTokens = int64_t{1} << 24;

  int64_t tokens() const { return int64_t{sequences} * length; }
};

// A matrix that is multiplied with: weights may be bf16 (Float: const float), their gradients are fp32.
template <typename Float>
using Matrix = std::conditional_t<std::is_const_v<Float>, Weights, Float*>;

// One block's tensors, in the order in which a unit owns them. Linear weights are [in, out].
template <typename Float>
struct Block {
  Float *ln_1_weight, *ln_1_bias;  // [d]
  Matrix<Float> attn_weight;       // [d, 3d]: queries, keys, values
  Float* attn_bias;                // [3d]
  Matrix<Float> proj_weight;       // [d, d]
  Float* proj_bias;                // [d]
  Float *ln_2_weight, *ln_2_bias;  // [d]
  Matrix<Float> fc_weight;         // [d, 4d]
  Float* fc_bias;                  // [4d]
  Matrix<Float> out_weight;        // [4d, d]
  Float* out_bias;                 // [d]
};

template <typename Float>
struct Embeddings {
  Float* tokens;     // wte [vocabulary, d]
  Float* positions;  // wpe [sequence, d]
};

template <typename Float>
struct Head {
  Float *ln_f_weight, *ln_f_bias;  // [d]
  Matrix<Float> matrix;            // [vocabulary, d]: lm_head, or wte where they are tied
};

// Floats that a piece saves from forward to backward; a multiple of 16, so that pieces can be laid one after another.
int64_t block_saved_floats(const Shape& shape, Batch batch);
int64_t head_saved_floats(const Shape& shape, Batch batch);

// Memory of one rank for batches of up to so many tokens of so long sequences. Contents do not outlive a call, but for
// the residual stream.
struct Workspace {
  // `memory`: as many floats as a Workspace of null memory says. `bf16`: some weights are bf16.
  Workspace(const Shape& shape, Batch batch, bool bf16, float* memory);

  float* stream;                     // [tokens, d]: x, then dx; the only one that the caller uses
  float* narrow;                     // [tokens, d]
  float* gradient;                   // [tokens, d]
  float* wide;                       // [tokens, 4d]
  float* wide_other;                 // [tokens, 4d]
  float* scores;                     // [rows of one attention block, length]
  reshard::Bf16* rounded = nullptr;  // both operands of the largest product; only where weights are bf16
  int64_t floats;                    // of all these
};

// x = wte[tokens] + wpe[position]
void embed_forward(const Shape&, Batch, const Embeddings<const float>&, const int32_t* tokens, float* x);
void embed_backward(const Shape&, Batch, const int32_t* tokens, const float* dx, const Embeddings<float>& gradients);

void block_forward(const Shape&, Batch, const Block<const float>&, float* x, float* saved, Workspace&);
void block_backward(const Shape&, Batch, const Block<const float>&, const float* saved, float* dx,
                    const Block<float>& gradients, Workspace&);

// Mean cross entropy of `targets` in nats; `saved` then holds what head_backward needs. x is only read.
double head_forward(const Shape&, Batch, const Head<const float>&, const float* x, const int32_t* targets, float* saved,
                    Workspace&);
// dx is overwritten with the gradient of the mean loss by x.
void head_backward(const Shape&, Batch, const Head<const float>&, const float* saved, float* dx,
                   const Head<float>& gradients, Workspace&);

// Logits [vocabulary] of one token's row of the residual stream.
void head_logits(const Shape&, const Head<const float>&, const float* x_row, float* logits, Workspace&);

// Floating-point operations of the matrix products of a piece's forward pass; backward takes twice as many.
double block_flops(const Shape& shape, Batch batch);
double head_flops(const Shape& shape, Batch batch);

}  // namespace gpt
