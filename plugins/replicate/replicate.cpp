// replicate: nothing is sharded; every rank holds the model and exchanges its gradients once per step (plain data
// parallel; PyTorch's DDP with no_sync around all but the last micro-batch).
//
//   per rank at rest   P parameters
//   per rank at peak   P + G
//   sent per rank      2 * (N-1)/N * G            one all-reduce, whatever M is; no gathers
//
// P parameter bytes, G gradient bytes, N ranks, M micro-batches.
// Most memory: the optimizer's state is whole on every rank too. zero1 sends as much and shards that state. Sums of
// gradients are taken over the micro-batches first and over the ranks then: equal to the other strategies to rounding
// when M > 1.

#include <reshard/strategy.hpp>

namespace {

using reshard::sdk::After;
using reshard::sdk::Decision;
using reshard::sdk::Field;
using reshard::sdk::Plan;
using reshard::sdk::Problem;
using reshard::sdk::Reduce;
using reshard::sdk::Unit;

struct Replicate {
  uint32_t prefetch_forward = 1;
  uint32_t prefetch_backward = 1;

  static constexpr Field<Replicate> options[] = {
      {"prefetch_forward", &Replicate::prefetch_forward, 0, 8, "units to gather ahead; counts where shard_over is set"},
      {"prefetch_backward", &Replicate::prefetch_backward, 0, 8, "the same for the backward pass"},
  };

  void decide(const Problem& problem, Plan& plan) const {
    plan.shard_over(1, "every rank holds the whole model");
    Decision decision;
    decision.after_forward = After::keep;
    decision.after_backward = After::keep;
    decision.reduce = Reduce::last;
    decision.prefetch_forward = prefetch_forward;
    decision.prefetch_backward = prefetch_backward;
    for (const Unit& unit : problem.units())
      plan.set(unit, decision, "always whole; gradients exchanged once per step");
  }
};

}  // namespace

RESHARD_STRATEGY(Replicate, "replicate", "1.0.0", "every rank holds everything; one all-reduce per step")
