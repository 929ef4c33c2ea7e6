// zero2: gradients sharded, parameters whole from their first forward on. Every unit is kept after its forward, so the
// backward gathers nothing; gradients are reduced in every micro-batch (ZeRO-2; PyTorch's fully_shard with
// reshard_after_forward=False is between_microbatches = "free").
//
//   per rank at rest   P/N parameters
//   per rank at peak   P/N + P whole, + the gradients of the unit in backward
//   sent per rank      (N-1)/N * (P + M * G)      "free": (N-1)/N * M * (P + G)
//
// P parameter bytes, G gradient bytes, N ranks of a shard group, M micro-batches.
// zero3 gathers twice and holds one unit; zero1 also holds G whole, and reduces it once.

#include <reshard/strategy.hpp>

namespace {

using reshard::sdk::After;
using reshard::sdk::Choices;
using reshard::sdk::Decision;
using reshard::sdk::Field;
using reshard::sdk::Plan;
using reshard::sdk::Problem;
using reshard::sdk::Reduce;
using reshard::sdk::Unit;

struct Zero2 {
  std::string between_microbatches = "keep";
  uint32_t prefetch_forward = 1;
  uint32_t prefetch_backward = 1;

  static constexpr Field<Zero2> options[] = {
      {"between_microbatches", &Zero2::between_microbatches, Choices{"keep|free"}, "what a backward leaves behind"},
      {"prefetch_forward", &Zero2::prefetch_forward, 0, 8, "units to gather ahead in the forward pass"},
      {"prefetch_backward", &Zero2::prefetch_backward, 0, 8, "units to gather ahead in the backward pass"},
  };

  void decide(const Problem& problem, Plan& plan) const {
    const bool keep = between_microbatches == "keep";
    Decision decision;
    decision.after_forward = After::keep;
    decision.after_backward = keep ? After::keep : After::free;
    decision.reduce = Reduce::each;
    decision.prefetch_forward = prefetch_forward;
    decision.prefetch_backward = prefetch_backward;
    const char* reason = keep ? "gathered once per step" : "gathered once per micro-batch, freed by its backward";
    for (const Unit& unit : problem.units()) plan.set(unit, decision, reason);
  }
};

}  // namespace

RESHARD_STRATEGY(Zero2, "zero2", "1.0.0", "parameters whole during a step, gradients sharded; one gather per step")
