#pragma once

// `[[strategy.switch]]`: the plans that a run will change to, and how the commands speak of them. Pure but for loading
// plugins.

#include <string>
#include <vector>

#include "cli/json.h"
#include "cli/output.h"
#include "engine/planning.h"
#include "reshard/job.h"
#include "reshard/model.h"

namespace reshard::cli {

// The plan of every switch, in the job's order; does not check the budget. Throws Error (config, plugin, plan).
std::vector<engine::PlannedStrategy> plan_switches(const Job& job, const Model& model, int optimizer_states);

std::string when_text(const Job::Switch& change);  // "after 2 steps"

// "; never: the run has 6 steps" for a switch that the run does not reach; else empty.
std::string never_text(const Job::Switch& change, const Job& job);

// A row per switch: its plan's hash, traffic and peak. Then the budget's verdict on each, and what plugins warned of.
std::string later_plans_text(const Job& job, const std::vector<engine::PlannedStrategy>& later, const Style& style);

// [{"at_step": 2, "where": "job.toml:3:1", and what to_json says of the plan}].
Json later_plans_json(const Job& job, const std::vector<engine::PlannedStrategy>& later);

// What a comparison of arms leaves out: "  switches are left out: after 2 steps to zero2 (job.toml:3:1)\n"; empty when
// the job has none.
std::string switches_left_out_text(const Job& job);
Json switches_left_out_json(const Job& job);

// What a plugin warned of while it decided, a line each: "  zero2: warning: …".
std::string log_text(const std::string& who, const std::vector<std::string>& log, const Style& style);

}  // namespace reshard::cli
