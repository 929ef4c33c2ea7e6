#pragma once

// The GPT example's network in one process without the runtime, for tests: parameters and gradients by name, one pass
// of forward and backward over a micro-batch. Memory can be laid at any distance from a 64-byte boundary.

#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "examples/gpt/network.h"
#include "examples/gpt/parameters.h"

namespace gpt {

// Floats that begin `skew` floats after a 64-byte boundary.
class Floats {
 public:
  Floats() = default;
  explicit Floats(int64_t count, int64_t skew = 0) : count_(count), skew_(skew) {
    const std::size_t bytes = static_cast<std::size_t>((count + skew + 16) * 4 + 63) / 64 * 64;
    memory_.reset(static_cast<float*>(std::aligned_alloc(64, bytes)));
    for (int64_t i = 0; i < count; ++i) data()[i] = 0;
  }
  float* data() const { return memory_.get() + skew_; }
  std::span<float> span() const { return {data(), static_cast<std::size_t>(count_)}; }

 private:
  struct Free {
    void operator()(float* p) const { std::free(p); }
  };
  std::unique_ptr<float, Free> memory_;
  int64_t count_ = 0, skew_ = 0;
};

class SingleProcess {
 public:
  SingleProcess(const Shape& shape, Batch batch, int64_t skew = 0)
      : shape_(shape),
        batch_(batch),
        units_(declare_units(shape, Placement::root, batch)),
        memory_(Workspace(shape, batch, false, nullptr).floats, skew),
        work_(shape, batch, false, memory_.data()),
        head_saved_(head_saved_floats(shape, batch), skew) {
    for (const reshard::UnitSpec& unit : units_.model.units()) {
      for (const reshard::Parameter& p : unit.parameters) {
        order_.push_back(p.name);
        values_.emplace(p.name, Floats(p.elements(), skew));
        gradients_.emplace(p.name, Floats(p.elements(), skew));
      }
    }
    for (int i = 0; i < shape.layers; ++i) saved_.emplace_back(block_saved_floats(shape, batch), skew);
  }

  const std::vector<std::string>& names() const { return order_; }
  std::span<float> values(const std::string& name) const { return values_.at(name).span(); }
  std::span<float> gradients(const std::string& name) const { return gradients_.at(name).span(); }
  const reshard::Model& model() const { return units_.model; }

  // Mean loss; the mean's gradients are added.
  double pass(const int32_t* inputs, const int32_t* targets) {
    const Embeddings<const float> embeddings = {value("wte.weight"), value("wpe.weight")};
    const Head<const float> head = {value("ln_f.weight"), value("ln_f.bias"), value(matrix())};
    embed_forward(shape_, batch_, embeddings, inputs, work_.stream);
    for (int i = 0; i < shape_.layers; ++i) {
      block_forward(shape_, batch_, block<const float>(values_, i), work_.stream, saved_[static_cast<size_t>(i)].data(),
                    work_);
    }
    const double loss = head_forward(shape_, batch_, head, work_.stream, targets, head_saved_.data(), work_);
    float* dx = work_.stream;
    head_backward(shape_, batch_, head, head_saved_.data(), dx,
                  {gradient("ln_f.weight"), gradient("ln_f.bias"), gradient(matrix())}, work_);
    for (int i = shape_.layers - 1; i >= 0; --i) {
      block_backward(shape_, batch_, block<const float>(values_, i), saved_[static_cast<size_t>(i)].data(), dx,
                     block<float>(gradients_, i), work_);
    }
    embed_backward(shape_, batch_, inputs, dx, {gradient("wte.weight"), gradient("wpe.weight")});
    return loss;
  }

 private:
  std::string matrix() const { return shape_.tied ? "wte.weight" : "lm_head.weight"; }
  const float* value(const std::string& name) const { return values_.at(name).data(); }
  float* gradient(const std::string& name) const { return gradients_.at(name).data(); }

  template <typename Float>
  Block<Float> block(const std::map<std::string, Floats>& from, int layer) const {
    const std::string h = "h." + std::to_string(layer) + ".";
    auto at = [&](const char* name) { return from.at(h + name).data(); };
    return {at("ln_1.weight"),        at("ln_1.bias"),        at("attn.c_attn.weight"), at("attn.c_attn.bias"),
            at("attn.c_proj.weight"), at("attn.c_proj.bias"), at("ln_2.weight"),        at("ln_2.bias"),
            at("mlp.c_fc.weight"),    at("mlp.c_fc.bias"),    at("mlp.c_proj.weight"),  at("mlp.c_proj.bias")};
  }

  Shape shape_;
  Batch batch_;
  Units units_;
  std::vector<std::string> order_;
  std::map<std::string, Floats> values_, gradients_;
  Floats memory_;
  Workspace work_;
  Floats head_saved_;
  std::vector<Floats> saved_;
};

}  // namespace gpt
