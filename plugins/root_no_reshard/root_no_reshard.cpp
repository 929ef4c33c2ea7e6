// root_no_reshard: zero3, but the root stays whole from its forward to its backward. The root is the last unit whose
// forward ends and the first whose backward begins: freeing it in between only to gather it again saves nothing at the
// peak (PyTorch's fully_shard with its default, reshard_after_forward=None). `also` keeps further units.
//
//   per rank at rest   P/N parameters
//   per rank at peak   P/N + K + the unit in use and those prefetched, whole
//   sent per rank      (N-1)/N * M * (2P - K + G)
//
// P parameter bytes, K of them in kept units, G gradient bytes, N ranks of a shard group, M micro-batches.

#include <reshard/strategy.hpp>

namespace {

using reshard::sdk::After;
using reshard::sdk::Decision;
using reshard::sdk::Field;
using reshard::sdk::OptionError;
using reshard::sdk::Plan;
using reshard::sdk::Problem;
using reshard::sdk::Reduce;
using reshard::sdk::Unit;

struct RootNoReshard {
  std::vector<std::string> also;
  uint32_t prefetch_forward = 1;
  uint32_t prefetch_backward = 1;

  static constexpr Field<RootNoReshard> options[] = {
      {"also", &RootNoReshard::also, "further units to keep: names, or globs with * and ?"},
      {"prefetch_forward", &RootNoReshard::prefetch_forward, 0, 8, "units to gather ahead in the forward pass"},
      {"prefetch_backward", &RootNoReshard::prefetch_backward, 0, 8, "units to gather ahead in the backward pass"},
  };

  void decide(const Problem& problem, Plan& plan) const {
    std::vector<bool> used(also.size(), false);
    Decision decision;
    decision.after_backward = After::free;
    decision.reduce = Reduce::each;
    decision.prefetch_forward = prefetch_forward;
    decision.prefetch_backward = prefetch_backward;
    for (const Unit& unit : problem.units()) {
      bool named = false;
      for (std::size_t i = 0; i < also.size(); ++i)
        if (reshard::sdk::glob_match(also[i], unit.name())) named = used[i] = true;
      decision.after_forward = unit.is_root() || named ? After::keep : After::free;
      plan.set(unit, decision,
               unit.is_root() ? "root is used first in backward"
               : named        ? "kept because `also` names it"
                              : "whole only while it is used");
    }
    for (std::size_t i = 0; i < also.size(); ++i)
      if (!used[i]) throw OptionError("also[" + std::to_string(i) + "]", "no unit matches \"" + also[i] + "\"");
  }
};

}  // namespace

RESHARD_STRATEGY(RootNoReshard, "root_no_reshard", "1.0.0", "zero3 with the root kept from forward to backward")
