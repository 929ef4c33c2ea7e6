#pragma once

// A plan: every unit's decision after the user's overrides, each value with who decided it and why. A plain value, the
// same on every rank; made by resolve(), read by the scheduler, explain and compare.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "reshard/decision.h"
#include "reshard/dtype.h"

namespace reshard {

// Who decided a value. Weakest first.
struct Origin {
  enum class By : uint8_t { core_default, plugin, program, job, command_line };
  By by = By::core_default;
  std::string where;     // "job.toml:14:1", "--unit h.3:reduce"; the plugin's name; empty for the core's default
  std::string reason;    // the plugin's, or empty
  std::string replaced;  // what the next weaker voice said: `"free" (job.toml:14:1)`; empty: nobody else spoke
};

// "plugin zero3", "the program", "job.toml:14:1", "--unit h.3:reduce", "core default".
std::string who(const Origin& origin);

struct UnitPlan {
  std::string name;
  bool owns_parameters = false;
  Decision decision;
  std::array<Origin, kFields> origins;
  const Origin& origin(Field field) const { return origins[static_cast<std::size_t>(field)]; }

  // What it is gathered and computed in: no strategy's decision. Own: not by [precision], which is for all units.
  Dtype dtype = Dtype::fp32;
  Origin dtype_origin;
  bool own_dtype = false;
};

struct Plan {
  int ranks = 1;
  int shards = 1;  // ranks of a shard group: the resolved shard_over
  AllReduce all_reduce = AllReduce::each;
  BackwardOrder backward_order = BackwardOrder::micro_batch;
  Origin shard_over_origin, all_reduce_origin, backward_order_origin;
  std::vector<UnitPlan> units;     // in the model's order, the root first
  std::vector<std::string> notes;  // what a reader would otherwise stumble over, whole sentences

  int replicas() const { return ranks / shards; }

  // 16 hex digits over what the ranks will do: the mesh, another order of prefetching than the core's, and the
  // decisions of units that own parameters, not who decided or why. Equal hashes = the same plan.
  std::string hash() const;
};

}  // namespace reshard
