#pragma once

// The printed parts of a plan: units and their decisions, who decided what, what a step moves, and the predicted peak.
// Pure functions from values to text.

#include <string>
#include <vector>

#include "cli/arms.h"
#include "cli/output.h"
#include "engine/planning.h"

namespace reshard::cli {

// "zero3"; of a variant "deep: zero3".
std::string strategy_text(const engine::PlannedStrategy& planned);

std::string plan_title(const engine::PlannedStrategy& planned, const Job& job, const Style& style);
std::string units_text(const engine::PlannedStrategy& planned, const Style& style);
std::string deciders_text(const Plan& plan, const Style& style);
std::string step_traffic_text(const engine::PlannedStrategy& planned, const Style& style);
std::string predicted_peak_text(const engine::PlannedStrategy& planned, const Style& style);
std::string kept_text(const engine::PlannedStrategy& planned, const Style& style);
std::string notes_text(const engine::PlannedStrategy& planned, const Style& style);

// "parameters in bf16, gradients added in fp32, shards and optimizer in fp32".
std::string plan_hash_text(const engine::PlannedStrategy& planned);  // and whether it is the first of several
std::string precision_text(const Job& job);

// "budget  2 GiB per rank (job.toml:40:1): 1.2 GiB to spare"; empty without a budget.
std::string budget_text(const Job& job, const engine::PlannedStrategy& planned);

// Several plans side by side. Then which of them are the same plan, and what made them so.
std::string arms_text(const std::vector<PlannedArm>& arms, const Style& style);
std::string same_plans_text(const std::vector<PlannedArm>& arms);

// "every unit" that owns parameters, or "h.0 and h.1"; longer runs of neighbours in the plan's order as "h.0 … h.11".
std::string unit_names_text(const Plan& plan, const std::vector<int>& units);

// "unit h.3, before backward, micro-batch 1".
std::string moment_text(const MemoryPeak& peak);

}  // namespace reshard::cli
