#pragma once

// From a plugin's answers and the user's overrides to the plan. Pure: the same input gives the same plan or the same
// error on every rank.
//
// Weakest first: core default, plugin, `[[strategy.unit]]`, command line. Within one of the last two a name (or "root")
// beats a glob, and among equals the later entry wins, field by field.

#include <optional>
#include <span>
#include <string>

#include "reshard/model.h"
#include "reshard/override.h"
#include "strategy/plan.h"
#include "strategy/problem.h"

namespace reshard {

// The user's side. Each value says itself whether the job file or the command line gave it.
struct UserWord {
  std::span<const UnitOverride> units{};
  std::optional<Given<int>> shard_over{};  // 0 = all ranks
  std::optional<Given<AllReduce>> all_reduce{};
  std::optional<Given<BackwardOrder>> backward_order{};
  std::optional<Given<Dtype>> param_dtype{};  // [precision] param_dtype, of units that nobody else speaks of
};

// What a unit is gathered and computed in, and who decided. Weakest first: fp32, [precision], the program's
// UnitSpec::param_dtype, `[[strategy.unit]]`, command line.
struct UnitDtype {
  Dtype dtype = Dtype::fp32;
  Origin origin;
  bool own = false;  // not by [precision]
};
UnitDtype resolve_dtype(const Model& model, int unit, const UserWord& user);

// `plugin`: the strategy's name, for origins and errors. Throws Error(plan) for a shard_over that does not divide the
// ranks or a k that does not divide the shard group (it names both and the divisors), and Error(config) for an override
// that matches no unit.
Plan resolve(const Model& model, int ranks, const std::string& plugin, const Answers& answers, const UserWord& user);

}  // namespace reshard
