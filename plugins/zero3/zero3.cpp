// zero3: whole only while it is needed. Every unit is freed after its forward and after its backward, and gathered
// again for the backward (ZeRO-3; PyTorch's fully_shard with reshard_after_forward=True).
//
//   per rank at rest   P/N parameters
//   per rank at peak   P/N + the unit in use and those prefetched, whole
//   sent per rank      (N-1)/N * M * (2P + G)     second P: the gather for the backward
//
// P parameter bytes, G gradient bytes, N ranks of a shard group, M micro-batches.
// Least memory, most traffic. zero2 drops the second P and holds all of P; root_no_reshard drops the root's.

#include <reshard/strategy.hpp>

namespace {

using reshard::sdk::After;
using reshard::sdk::Decision;
using reshard::sdk::Field;
using reshard::sdk::Plan;
using reshard::sdk::Problem;
using reshard::sdk::Reduce;
using reshard::sdk::Unit;

struct Zero3 {
  uint32_t prefetch_forward = 1;
  uint32_t prefetch_backward = 1;

  static constexpr Field<Zero3> options[] = {
      {"prefetch_forward", &Zero3::prefetch_forward, 0, 8, "units to gather ahead in the forward pass"},
      {"prefetch_backward", &Zero3::prefetch_backward, 0, 8, "units to gather ahead in the backward pass"},
  };

  void decide(const Problem& problem, Plan& plan) const {
    Decision decision;
    decision.after_forward = After::free;
    decision.after_backward = After::free;
    decision.reduce = Reduce::each;
    decision.prefetch_forward = prefetch_forward;
    decision.prefetch_backward = prefetch_backward;
    for (const Unit& unit : problem.units()) plan.set(unit, decision, "whole only while it is used");
  }
};

}  // namespace

RESHARD_STRATEGY(Zero3, "zero3", "1.0.0", "free after forward and backward; least memory, two gathers per micro-batch")
