// node_reshard: zero3 across nodes, but after its forward a unit shrinks to a shard of its node, so that the gather for
// the backward stays inside the node (ZeRO++'s hpZ; PyTorch's fully_shard with reshard_after_forward=k). The shard of a
// node is a flat slice of the gathered memory: shrinking copies nothing over the wire.
//
//   per rank at rest   P/N parameters
//   per rank at peak   P/N + P/k + the unit in use and those prefetched, whole
//   sent per rank      (N-1)/N * M * (P + G)  between all ranks, (k-1)/k * M * P  inside the node
//
// P parameter bytes, G gradient bytes, N ranks of a shard group, k ranks of a node, M micro-batches.

#include <reshard/strategy.hpp>

namespace {

using reshard::sdk::After;
using reshard::sdk::Decision;
using reshard::sdk::Field;
using reshard::sdk::Plan;
using reshard::sdk::Problem;
using reshard::sdk::Reduce;
using reshard::sdk::Unit;

struct NodeReshard {
  uint32_t ranks = 0;
  uint32_t prefetch_forward = 1;
  uint32_t prefetch_backward = 1;

  static constexpr Field<NodeReshard> options[] = {
      {"ranks", &NodeReshard::ranks, 0, INT32_MAX, "ranks that share a unit after its forward; 0 = those of a node"},
      {"prefetch_forward", &NodeReshard::prefetch_forward, 0, 8, "units to gather ahead in the forward pass"},
      {"prefetch_backward", &NodeReshard::prefetch_backward, 0, 8, "units to gather ahead in the backward pass"},
  };

  void decide(const Problem& problem, Plan& plan) const {
    const uint32_t all = problem.ranks(), k = reshard::sdk::group_ranks(problem, "ranks", ranks);
    // The two ends have words of their own, which hold under any shard_over of the user's.
    const std::string whose = ranks > 0 ? "`ranks`" : "a node";
    std::string reason = "shrunk to " + whose + " = " + std::to_string(k) + " of " + std::to_string(all) +
                         " ranks: the backward's gather stays among them";
    Decision decision;
    decision.after_forward = After::shrink(k);
    if (k == 1) {
      decision.after_forward = After::keep;
      reason = whose + " is one rank: shrinking to it keeps the unit whole";
    } else if (k == all) {
      decision.after_forward = After::free;
      reason = whose + " is all " + std::to_string(all) + " ranks: shrinking to it frees the unit";
    }
    decision.after_backward = After::free;
    decision.reduce = Reduce::each;
    decision.prefetch_forward = prefetch_forward;
    decision.prefetch_backward = prefetch_backward;
    for (const Unit& unit : problem.units()) plan.set(unit, decision, reason);
  }
};

}  // namespace

RESHARD_STRATEGY(NodeReshard, "node_reshard", "1.0.0",
                 "shrinks to a node's shard after forward; backward gathers inside")
