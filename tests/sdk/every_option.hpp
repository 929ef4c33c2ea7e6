#pragma once

// A strategy with every kind of option, which answers with what it was told.

#include <reshard/strategy.hpp>

namespace {

using namespace reshard::sdk;

struct EveryOption {
  std::string choice = "slow";
  bool flag = true;
  int64_t large = -5;
  std::vector<std::string> names = {"a", "b"};
  std::string path;
  double ratio = 0.25;
  Bytes reserve{int64_t{2} << 30};
  int32_t signed_number = 0;
  uint32_t small = 3;

  static constexpr Field<EveryOption> options[] = {
      {"choice", &EveryOption::choice, Choices{"slow|fast|none"}, "how"},
      {"flag", &EveryOption::flag, "yes or no"},
      {"large", &EveryOption::large, INT64_MIN + 1, INT64_MAX, "any number"},
      {"names", &EveryOption::names, "some names"},
      Field<EveryOption>{"path", &EveryOption::path, "any text"}.required(),
      {"ratio", &EveryOption::ratio, 0, 1, "a part"},
      {"reserve", &EveryOption::reserve, "memory to leave free"},
      {"signed", &EveryOption::signed_number, INT64_MIN, INT64_MAX, "as wide as its member"},
      {"small", &EveryOption::small, -7, INT64_MAX, "as wide as its member"},
  };

  void decide(const Problem& problem, Plan& plan) const {
    const auto number = [](auto value) { return std::to_string(value); };
    plan.log(Level::info, "deciding");
    plan.all_reduce(Reduce::last, "to be cleared");
    plan.clear();
    plan.shard_over(2, number(problem.ranks()) + " ranks, " + number(problem.ranks_per_node()) + " per node, " +
                           number(problem.microbatches()) + " micro-batches, budget " + number(problem.budget_bytes()) +
                           ", seed " + number(problem.seed()) + ", " + number(problem.units().size()) + " units");
    plan.all_reduce(Reduce::each, "all set");
    for (const Unit& unit : problem.units()) {
      Decision decision;
      if (unit.is_root()) {
        plan.set(unit, decision, text());
        continue;
      }
      decision.after_forward = After::shrink(3);
      decision.after_backward = After::keep;
      decision.reduce = Reduce::last;
      decision.prefetch_forward = 2;
      decision.prefetch_backward = 5;
      plan.set(unit, decision, "to be cleared");
      plan.clear(unit);
      plan.set(unit, decision, "parent " + number(unit.parent()) + ", " + number(unit.bytes()) + " bytes");
    }
  }

  std::string text() const {
    std::string list;
    for (const std::string& name : names) list += (list.empty() ? "" : ",") + name;
    return "choice=" + choice + " flag=" + std::to_string(flag) + " large=" + std::to_string(large) + " names=" + list +
           " path=" + path + " ratio=" + std::to_string(ratio) + " reserve=" + std::to_string(reserve.value) +
           " signed=" + std::to_string(signed_number) + " small=" + std::to_string(small);
  }
};

}  // namespace
