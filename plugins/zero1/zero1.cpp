// zero1: only the optimizer's state and what it updates are sharded. Parameters are whole from their first forward to
// the step's end, gradients are accumulated whole and reduced in the last micro-batch (ZeRO-1).
//
//   per rank at rest   P/N parameters
//   per rank at peak   P/N + P whole + G whole
//   sent per rank      (N-1)/N * (P + G)          whatever M is
//
// P parameter bytes, G gradient bytes, N ranks of a shard group, M micro-batches.
// Least traffic with several micro-batches. zero2 shards G and reduces it M times. Sums of gradients are taken over the
// micro-batches first and over the ranks then: equal to the other strategies to rounding when M > 1.

#include <reshard/strategy.hpp>

namespace {

using reshard::sdk::After;
using reshard::sdk::Decision;
using reshard::sdk::Field;
using reshard::sdk::Plan;
using reshard::sdk::Problem;
using reshard::sdk::Reduce;
using reshard::sdk::Unit;

struct Zero1 {
  uint32_t prefetch_forward = 1;
  uint32_t prefetch_backward = 1;

  static constexpr Field<Zero1> options[] = {
      {"prefetch_forward", &Zero1::prefetch_forward, 0, 8, "units to gather ahead in the forward pass"},
      {"prefetch_backward", &Zero1::prefetch_backward, 0, 8, "units to gather ahead in the backward pass"},
  };

  void decide(const Problem& problem, Plan& plan) const {
    Decision decision;
    decision.after_forward = After::keep;
    decision.after_backward = After::keep;
    decision.reduce = Reduce::last;
    decision.prefetch_forward = prefetch_forward;
    decision.prefetch_backward = prefetch_backward;
    for (const Unit& unit : problem.units()) plan.set(unit, decision, "gathered and reduced once per step");
  }
};

}  // namespace

RESHARD_STRATEGY(Zero1, "zero1", "1.0.0", "only optimizer state sharded; one gather and one reduce per step")
