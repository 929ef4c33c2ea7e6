// Breaks the rule that a strategy decides by its problem and its options alone: it reads the environment, too. And it
// warns each time. Its option is required.

#include <cstdlib>

#include <reshard/strategy.hpp>

namespace {

using reshard::sdk::After;
using reshard::sdk::Field;
using reshard::sdk::Level;
using reshard::sdk::Plan;
using reshard::sdk::Problem;
using reshard::sdk::Unit;

struct Moody {
  uint32_t ahead = 0;

  static constexpr Field<Moody> options[] = {
      Field<Moody>{"ahead", &Moody::ahead, 0, 8, "units to gather ahead"}.required()};

  void decide(const Problem& problem, Plan& plan) const {
    plan.log(Level::warn, "it may rain");
    reshard::sdk::Decision decision;
    decision.after_forward = std::getenv("RESHARD_TEST_MOOD") == nullptr ? After::free : After::keep;
    decision.prefetch_forward = ahead;
    for (const Unit& unit : problem.units()) plan.set(unit, decision, "as it feels");
  }
};

}  // namespace

RESHARD_STRATEGY(Moody, "moody", "1.0.0", "decides as it feels")
