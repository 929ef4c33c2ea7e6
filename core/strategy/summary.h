#pragma once

// What a step that has ended showed, for a strategy that asks for it: the same on every rank.

#include <array>
#include <cstdint>
#include <vector>

#include "reshard/report.h"

namespace reshard {

// Seconds that the slowest rank's compute waited for the unit, 0 where all was hidden.
struct UnitSummary {
  double exposed_gather_forward = 0;
  double exposed_gather_backward = 0;  // inside backward, recomputation included
  double exposed_reduce = 0;           // all-reduces between replicas included
  int64_t gathers = 0;
};

struct StepSummary {
  int64_t step = 0;  // counted from 0
  bool skipped = false;
  bool first_of_plan = false;
  double seconds = 0;                                   // of the slowest rank
  double seconds_exposed = 0;                           // the largest of any rank
  std::array<int64_t, kMemoryCategories> peak_bytes{};  // of the fullest rank, since the plan was adopted
  std::vector<UnitSummary> units;                       // in the model's order
};

}  // namespace reshard
