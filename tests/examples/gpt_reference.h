#pragma once

// GPT-2's loss in double precision, written for reading and nothing else: the measure for the network's hand-written
// gradients, by central differences. Independent of the example's code but for Shape and Batch.

#include <cmath>
#include <cstdint>
#include <map>
#include <numbers>
#include <string>
#include <vector>

#include "examples/gpt/network.h"

namespace gpt {

using Tensors = std::map<std::string, std::vector<double>>;

class Reference {
 public:
  Reference(const Shape& shape, Batch batch) : shape_(shape), batch_(batch) {}

  double loss(const Tensors& w, const int32_t* inputs, const int32_t* targets) const {
    double sum = 0;
    for (int s = 0; s < batch_.sequences; ++s) {
      sum += sequence_loss(w, inputs + s * batch_.length, targets + s * batch_.length);
    }
    return sum / static_cast<double>(batch_.tokens());
  }

 private:
  using Rows = std::vector<std::vector<double>>;

  static Rows norm(const Rows& x, const std::vector<double>& gain, const std::vector<double>& bias) {
    Rows out = x;
    for (std::vector<double>& row : out) {
      const double n = static_cast<double>(row.size());
      double mean = 0, variance = 0;
      for (const double v : row) mean += v / n;
      for (const double v : row) variance += (v - mean) * (v - mean) / n;
      for (size_t i = 0; i < row.size(); ++i) {
        row[i] = (row[i] - mean) / std::sqrt(variance + 1e-5) * gain[i] + bias[i];
      }
    }
    return out;
  }

  static Rows linear(const Rows& x, const std::vector<double>& weight, const std::vector<double>& bias) {
    Rows out(x.size(), bias);
    for (size_t r = 0; r < x.size(); ++r) {
      for (size_t i = 0; i < x[r].size(); ++i) {
        for (size_t j = 0; j < bias.size(); ++j) out[r][j] += x[r][i] * weight[i * bias.size() + j];
      }
    }
    return out;
  }

  Rows attention(const Rows& qkv) const {
    const size_t d = static_cast<size_t>(shape_.width), size = static_cast<size_t>(shape_.head_width());
    Rows out(qkv.size(), std::vector<double>(d, 0.0));
    for (size_t first = 0; first < d; first += size) {
      for (size_t t = 0; t < qkv.size(); ++t) {
        std::vector<double> p(t + 1, 0.0);
        double total = 0;
        for (size_t u = 0; u <= t; ++u) {
          for (size_t i = first; i < first + size; ++i) p[u] += qkv[t][i] * qkv[u][d + i];
          p[u] = std::exp(p[u] / std::sqrt(static_cast<double>(size)));
          total += p[u];
        }
        for (size_t u = 0; u <= t; ++u) {
          for (size_t i = first; i < first + size; ++i) out[t][i] += p[u] / total * qkv[u][2 * d + i];
        }
      }
    }
    return out;
  }

  static void add(Rows& x, const Rows& y) {
    for (size_t r = 0; r < x.size(); ++r) {
      for (size_t i = 0; i < x[r].size(); ++i) x[r][i] += y[r][i];
    }
  }

  double sequence_loss(const Tensors& w, const int32_t* inputs, const int32_t* targets) const {
    const size_t d = static_cast<size_t>(shape_.width), length = static_cast<size_t>(batch_.length);
    Rows x(length, std::vector<double>(d));
    for (size_t t = 0; t < length; ++t) {
      for (size_t i = 0; i < d; ++i) {
        x[t][i] = w.at("wte.weight")[static_cast<size_t>(inputs[t]) * d + i] + w.at("wpe.weight")[t * d + i];
      }
    }
    for (int layer = 0; layer < shape_.layers; ++layer) {
      auto at = [&](const char* name) -> const std::vector<double>& {
        return w.at("h." + std::to_string(layer) + "." + name);
      };
      const Rows qkv =
          linear(norm(x, at("ln_1.weight"), at("ln_1.bias")), at("attn.c_attn.weight"), at("attn.c_attn.bias"));
      add(x, linear(attention(qkv), at("attn.c_proj.weight"), at("attn.c_proj.bias")));
      Rows up = linear(norm(x, at("ln_2.weight"), at("ln_2.bias")), at("mlp.c_fc.weight"), at("mlp.c_fc.bias"));
      for (std::vector<double>& row : up) {
        for (double& u : row) u *= 0.5 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (u + 0.044715 * u * u * u)));
      }
      add(x, linear(up, at("mlp.c_proj.weight"), at("mlp.c_proj.bias")));
    }
    const Rows h = norm(x, w.at("ln_f.weight"), w.at("ln_f.bias"));
    const std::vector<double>& matrix = w.at(shape_.tied ? "wte.weight" : "lm_head.weight");
    double sum = 0;
    for (size_t t = 0; t < length; ++t) {
      double total = 0, right = 0;
      for (int v = 0; v < shape_.vocabulary; ++v) {
        double logit = 0;
        for (size_t i = 0; i < d; ++i) logit += h[t][i] * matrix[static_cast<size_t>(v) * d + i];
        total += std::exp(logit);
        if (v == targets[t]) right = logit;
      }
      sum += std::log(total) - right;
    }
    return sum;
  }

  Shape shape_;
  Batch batch_;
};

}  // namespace gpt
