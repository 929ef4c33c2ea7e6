#pragma once

// Causal multi-head attention between the two linear layers. Thread rules and memory: as in network.h.

#include "network.h"

namespace gpt {

// Rows of queries that are worked on together: the columns right of a block's last row are never computed.
constexpr int kAttentionRows = 64;

// qkv [tokens, 3d] holds queries, keys and values side by side, heads side by side within each; out [tokens, d].
// probabilities [sequences, heads, length, length]: only what is at or left of the diagonal's block is written.
void attention_forward(const Shape&, Batch, const float* qkv, float* probabilities, float* out);

// dqkv is overwritten. `scores`: scratch of min(kAttentionRows, length) * length floats.
void attention_backward(const Shape&, Batch, const float* qkv, const float* probabilities, const float* dout,
                        float* dqkv, float* scores);

}  // namespace gpt
