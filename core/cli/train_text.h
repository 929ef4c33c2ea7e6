#pragma once

// The printed parts of a training run: what is about to run, and what it cost. Pure functions from values to text.

#include <string>
#include <utility>
#include <vector>

#include "cli/output.h"
#include "cli/run_record.h"
#include "engine/planning.h"
#include "reshard/job.h"

namespace reshard::cli {

using Facts = std::vector<std::pair<std::string, std::string>>;

// The start-up table. `later`: the plans of [[strategy.switch]], one per entry. `manifest`: its file.
std::string start_text(const Job& job, const Facts& facts, const engine::PlannedStrategy& planned,
                       const std::vector<engine::PlannedStrategy>& later, const std::string& manifest,
                       const Style& style);

// "after 100 steps: zero2, nothing moved (…)".
std::string switch_text(const StrategySwitch& change);

// "after 6 steps: adaptive decided anew: 2 units changed, …".
std::string replan_text(const std::string& strategy, const Replan& replan);

// "200 steps in 17.4 s …"; with the losses at both ends.
std::string summary_text(const RunRecord& record, int64_t samples_per_step, const std::string& sample_unit,
                         const Style& style);
std::string traffic_text(const Report& report, const Style& style);
std::string memory_text(const RunRecord& record, const Style& style);
std::string sample_text(const std::string& sample, const Style& style);

}  // namespace reshard::cli
