#pragma once

// What a strategy is asked about: the units, the ranks, the budget. The same on every rank; never a rank's number.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reshard/decision.h"

namespace reshard {

struct ProblemUnit {
  std::string name;
  int parent = -1;  // index into Problem::units, -1 for the root
  bool root = false;
  int64_t bytes = 0;                             // of all parameters, whole, padding included, in the gathered dtype
  int64_t trainable_bytes = 0;                   // of those, the trainable ones
  int64_t gradient_bytes = 0;                    // of the whole gradient
  double flops_forward = 0, flops_backward = 0;  // per micro-batch; 0 = not declared
  double seconds_gather = 0;                     // estimated; 0 = unknown
};

// One answer of a strategy, with the reason that `explain` prints. Fields that the strategy did not set are empty and
// take the core's default.
struct UnitAnswer {
  std::optional<AfterForward> after_forward;
  std::optional<AfterBackward> after_backward;
  std::optional<Reduce> reduce;
  std::optional<int> prefetch_forward, prefetch_backward;
  std::string reason;
};

// All of a strategy's answers for one problem.
struct Answers {
  std::vector<UnitAnswer> units;  // one per Problem::units, in that order
  std::optional<int> shard_over;
  std::optional<AllReduce> all_reduce;
  std::string plan_reason;  // for shard_over and all_reduce
};

struct Problem {
  int ranks = 1;
  int ranks_per_node = 1;
  int microbatches = 1;
  int64_t budget_bytes = 0;  // per rank, 0 = none
  uint64_t seed = 0;
  std::vector<ProblemUnit> units;  // declared forward order, the root first
  // Predicted peak in bytes per rank under these answers; user overrides are applied as they will be. May be empty
  // (a toy problem): then it counts as unknown, -1.
  std::function<int64_t(const Answers&)> predicted_peak;
};

}  // namespace reshard
