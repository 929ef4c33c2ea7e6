// keep_last: zero3, but the units that the backward needs first stay whole from their forward to it. They have just
// been used when the backward begins, and at the peak the first of them are whole anyway. The backward enters the root
// first, then what it encloses from the last unit to the first; units without parameters do not count.
//
//   per rank at rest   P/N parameters
//   per rank at peak   P/N + K + the unit in use and those prefetched, whole
//   sent per rank      (N-1)/N * M * (2P - K + G)
//
// P parameter bytes, K of them in kept units, G gradient bytes, N ranks of a shard group, M micro-batches.

#include <reshard/strategy.hpp>

namespace {

using reshard::sdk::After;
using reshard::sdk::Bytes;
using reshard::sdk::bytes_text;
using reshard::sdk::Decision;
using reshard::sdk::Field;
using reshard::sdk::Plan;
using reshard::sdk::Problem;
using reshard::sdk::Reduce;
using reshard::sdk::Unit;

struct KeepLast {
  uint32_t units = 2;
  Bytes bytes;
  uint32_t prefetch_forward = 1;
  uint32_t prefetch_backward = 1;

  static constexpr Field<KeepLast> options[] = {
      {"units", &KeepLast::units, 0, INT32_MAX, "units to keep, the one that backward needs first first"},
      {"bytes", &KeepLast::bytes, "keep as many as fit into so many bytes, whatever `units` says; 0 = `units` decides"},
      {"prefetch_forward", &KeepLast::prefetch_forward, 0, 8, "units to gather ahead in the forward pass"},
      {"prefetch_backward", &KeepLast::prefetch_backward, 0, 8, "units to gather ahead in the backward pass"},
  };

  void decide(const Problem& problem, Plan& plan) const {
    Decision decision;
    decision.after_forward = After::free;
    decision.after_backward = After::free;
    decision.reduce = Reduce::each;
    decision.prefetch_forward = prefetch_forward;
    decision.prefetch_backward = prefetch_backward;
    std::vector<Unit> owners;
    for (const Unit& unit : reshard::sdk::backward_order(problem.units())) {
      if (unit.bytes() > 0)
        owners.push_back(unit);
      else
        plan.set(unit, decision, "owns no parameters");
    }
    const bool by_bytes = bytes.value > 0;
    std::size_t count = 0;
    int64_t kept = 0;
    while (count < owners.size() && (by_bytes ? owners[count].bytes() <= bytes.value - kept : count < units))
      kept += owners[count++].bytes();
    const std::string first = "the first " + std::to_string(count) + " in backward, " + bytes_text(kept) +
                              (by_bytes ? " of `bytes` = " + bytes_text(bytes.value) : "");
    for (std::size_t i = 0; i < owners.size(); ++i) {
      decision.after_forward = i < count ? After::keep : After::free;
      plan.set(owners[i], decision, (i < count ? "kept: among " : "freed: not among ") + first);
    }
  }
};

}  // namespace

RESHARD_STRATEGY(KeepLast, "keep_last", "1.0.0", "zero3 with the units kept that backward needs first")
