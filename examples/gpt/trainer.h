#pragma once

// One rank of the GPT example: its forward and backward passes through the runtime's hooks, on tokens from a source
// that the ranks share. Thread rules: a Trainer belongs to its rank's thread.

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data.h"
#include "network.h"
#include "numbers.h"
#include "parameters.h"
#include "reshard/app.h"

namespace gpt {

// What every rank's trainer works with; made once, constant, and alive as long as the trainers.
struct Setup {
  Shape shape;
  Batch batch;  // one micro-batch of one rank
  Units units;
  bool bf16 = false;  // some weights are bf16 and multiplied so
  uint64_t seed = 1;
  std::unique_ptr<const TokenSource> tokens;
  std::unique_ptr<const Safetensors> parameters;  // initial values; null: GPT-2's own initialisation
  std::vector<int32_t> prompt;                    // of the text sample; empty: no sample
  int64_t sample_tokens = 0;                      // of the text sample, the prompt not counted; 0: no sample
};

class Trainer final : public reshard::Trainer {
 public:
  Trainer(const Setup& setup, reshard::Runtime& runtime);

  void fill(reshard::Runtime& runtime) override;
  double micro_batch(reshard::Runtime& runtime, reshard::MicroBatch at) override;
  std::optional<double> evaluate(reshard::Runtime& runtime) override;
  std::string sample(reshard::Runtime& runtime, const std::function<bool()>& stop) override;

 private:
  // One piece of the network inside its unit's hooks, on that unit's numbers.
  template <typename Piece>
  void forward_piece(reshard::Runtime& runtime, reshard::Unit unit, const reshard::View& root, Piece piece);
  template <typename Piece>
  void backward_piece(reshard::Runtime& runtime, reshard::Unit unit, const reshard::View& root, Piece piece);

  // A pass through all units: each piece runs inside the hooks of the unit that owns it.
  double forward(reshard::Runtime& runtime);
  void backward(reshard::Runtime& runtime);
  // Forward only: `last` runs where the head's parameters are at hand.
  template <typename Last>
  void forward_only(reshard::Runtime& runtime, Batch batch, Last last);

  float* keep(reshard::Runtime& runtime, reshard::Unit unit);  // memory for what a unit saves
  void split_tokens(int64_t sequence, std::span<const int32_t> tokens);
  int32_t draw(std::span<const float> logits, uint64_t index) const;

  const Setup& setup_;
  reshard::Buffer scratch_;
  Workspace work_;
  float* numbers_;                         // scratch for the numbers of bf16 units
  std::vector<reshard::Buffer> saved_;     // by unit, from its forward to its backward
  std::vector<int32_t> inputs_, targets_;  // [sequences, length]
  std::vector<int32_t> sequence_;          // [length + 1]
};

}  // namespace gpt
