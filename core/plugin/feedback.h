#pragma once

// "reshard.feedback/1" of a loaded strategy: finding its table, and telling an instance what a step showed.
// Threads: as an instance's decide.

#include <reshard/ext/feedback.h>

#include "plugin/library.h"
#include "strategy/summary.h"

namespace reshard::plugin {

// The table that the strategy offers, or null. Throws Error(plugin) for one that is not whole. REQUIRES: init has run.
const reshard_feedback* find_feedback(Library& library, const reshard_strategy& strategy, const LogFunction& log);

// A step in the form in which it crosses the border; valid while this lives.
class SummaryTable {
 public:
  explicit SummaryTable(const StepSummary& step);
  const reshard_summary* raw() const { return &raw_; }

 private:
  std::vector<reshard_unit_summary> units_;
  reshard_summary raw_;
};

}  // namespace reshard::plugin
