#pragma once

// GPT-2's parameters: names, shapes, the units that own them, and initial values. Names are Hugging Face's own without
// the leading "transformer."; linear weights are [in, out]. Thread rules: pure functions and values.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "network.h"
#include "reshard/model.h"
#include "safetensors.h"

namespace gpt {

// Where embeddings, last norm and head live: in the root unit, or in units of their own around the blocks ("wte": both
// embeddings; "lm_head": norm and head) under a root that owns nothing. Split needs an untied head: a tied one is one
// matrix at both ends.
enum class Placement { root, split };

// The model as units. The indices of a unit's parameters are the order of the fields of Block, and of the lists below.
struct Units {
  reshard::Model model{reshard::UnitSpec{.name = "root", .parameters = {}}};
  reshard::Unit embeddings, head;  // the root unit where Placement is root
  std::vector<reshard::Unit> blocks;
  // Indices within `embeddings` and `head`.
  int tokens = 0, positions = 1, ln_f_weight = 0, ln_f_bias = 1, matrix = 2;
};

// `batch`: one micro-batch of one rank, for the bytes that backward needs and the operations of a pass.
Units declare_units(const Shape& shape, Placement placement, Batch batch);

// GPT-2's own initialisation: normal of deviation 0.02, divided by sqrt(2 layers) where a linear layer ends in the
// residual stream; biases 0; norms' gains 1. Elements [offset, offset + values.size()); equal for every placement and
// rank count.
void initial_values(const Shape& shape, uint64_t seed, std::string_view parameter, int64_t offset,
                    std::span<float> values);

// Throws Error(data) unless the file has exactly this model's parameters, fp32 and of the same shapes. GPT-2's causal
// masks ("h.0.attn.bias"), which old files store, are passed over.
void check_parameters(const Safetensors& file, const reshard::Model& model);

}  // namespace gpt
