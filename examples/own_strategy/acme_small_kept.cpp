// acme_small_kept: small units stay whole from forward to backward, large ones are freed: little memory buys back most of
// the gathers. An example of a strategy of your own: it needs sdk/include and a C++17 compiler, nothing else of Reshard.

#include <reshard/strategy.hpp>

namespace {

using namespace reshard::sdk;

struct SmallKept {
  Bytes below{1 << 20};

  static constexpr Field<SmallKept> options[] = {{"below", &SmallKept::below, "units of fewer bytes are kept"}};

  void decide(const Problem& problem, Plan& plan) const {
    for (const Unit& unit : problem.units()) {
      Decision decision;  // what is not set takes the core's default
      const bool small = unit.bytes() < below.value;
      decision.after_forward = small ? After::keep : After::free;
      plan.set(unit, decision, small ? "smaller than `below`" : "larger than `below`");
    }
  }
};

}  // namespace

RESHARD_STRATEGY(SmallKept, "acme_small_kept", "0.1.0", "keep small units from forward to backward, free large ones")
