// hybrid: zero3 among k ranks, replicas of it on the others, gradients exchanged between replicas (HSDP; PyTorch's
// fully_shard on a mesh of two dimensions). With k = the ranks of a node, gathers and reduces stay inside a node.
//
//   per rank at rest   P/k parameters
//   per rank at peak   P/k + the unit in use and those prefetched, whole
//   sent per rank      (k-1)/k * M * (2P + G)  inside the node, 2 * (R-1)/R * A * G/k  between nodes
//
// P parameter bytes, G gradient bytes, k ranks of a shard group, R = N/k replicas, M micro-batches; A all-reduces per
// step: M, or 1 with all_reduce = "last".

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

struct Hybrid {
  uint32_t shard_over = 0;
  std::string all_reduce = "each";
  std::string after_forward = "free";
  uint32_t prefetch_forward = 1;
  uint32_t prefetch_backward = 1;

  static constexpr Field<Hybrid> options[] = {
      {"shard_over", &Hybrid::shard_over, 0, INT32_MAX, "ranks that share a unit; 0 = those of a node"},
      {"all_reduce", &Hybrid::all_reduce, Choices{"each|last"}, "the micro-batches in which replicas exchange"},
      {"after_forward", &Hybrid::after_forward, Choices{"free|keep"}, "free = zero3 in a group, keep = zero2"},
      {"prefetch_forward", &Hybrid::prefetch_forward, 0, 8, "units to gather ahead in the forward pass"},
      {"prefetch_backward", &Hybrid::prefetch_backward, 0, 8, "units to gather ahead in the backward pass"},
  };

  void decide(const Problem& problem, Plan& plan) const {
    const uint32_t all = problem.ranks(), k = reshard::sdk::group_ranks(problem, "shard_over", shard_over);
    const std::string whose = shard_over > 0 ? "`shard_over`" : "a node";
    plan.shard_over(k, k == all ? whose + " is all " + std::to_string(all) + " ranks: there are no replicas"
                                : "sharded over " + whose + " = " + std::to_string(k) + " ranks, " +
                                      std::to_string(all / k) + " replicas");
    const bool each = all_reduce == "each";
    if (k < all)
      plan.all_reduce(each ? Reduce::each : Reduce::last,
                      each ? "replicas exchange in every micro-batch" : "replicas exchange once per step");
    const bool keep = after_forward == "keep";
    Decision decision;
    decision.after_forward = keep ? After::keep : After::free;
    decision.after_backward = After::free;
    decision.reduce = Reduce::each;
    decision.prefetch_forward = prefetch_forward;
    decision.prefetch_backward = prefetch_backward;
    for (const Unit& unit : problem.units())
      plan.set(unit, decision, keep ? "gathered in its group once per micro-batch" : "whole only while it is used");
  }
};

}  // namespace

RESHARD_STRATEGY(Hybrid, "hybrid", "1.0.0", "sharded inside a node, replicated between nodes")
