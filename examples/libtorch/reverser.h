#pragma once

// An ordinary torch::nn model and its data: a small transformer that learns to reverse a row of digits. Nothing in here
// knows of Reshard.

#include <cstdint>
#include <utility>

#include <torch/nn.h>

struct ReverserOptions {
  int64_t length = 12, width = 32, layers = 3, heads = 2;
};

struct ReverserImpl : torch::nn::Module {
  explicit ReverserImpl(const ReverserOptions& options)
      : digits(register_module("digits", torch::nn::Embedding(10, options.width))),
        places(register_parameter("places", 0.5 * torch::randn({options.length, options.width}))),
        head(register_module("head", torch::nn::Linear(options.width, 10))) {
    for (int64_t layer = 0; layer < options.layers; ++layer)
      blocks->push_back(
          torch::nn::TransformerEncoderLayer(torch::nn::TransformerEncoderLayerOptions(options.width, options.heads)
                                                 .dim_feedforward(4 * options.width)
                                                 .dropout(0)));
    register_module("blocks", blocks);
  }

  // rows[batch, length] of digits in, logits[batch, length, 10] out.
  torch::Tensor forward(const torch::Tensor& rows) {
    const torch::Tensor hidden = digits->forward(rows) + places;
    return head->forward(blocks->forward(hidden.transpose(0, 1)).transpose(0, 1));
  }

  torch::nn::Embedding digits;
  torch::Tensor places;
  torch::nn::Linear head;
  torch::nn::Sequential blocks;
};
TORCH_MODULE(Reverser);

// Rows of digits, the same for the same number on any rank.
inline torch::Tensor rows_of_digits(uint64_t number, int64_t batch, int64_t length) {
  return torch::randint(10, {batch, length}, at::detail::createCPUGenerator(number), torch::kLong);
}

inline torch::Tensor reversal_loss(Reverser& net, const torch::Tensor& rows) {
  return torch::nn::functional::cross_entropy(net->forward(rows).flatten(0, 1), rows.flip(1).flatten());
}
