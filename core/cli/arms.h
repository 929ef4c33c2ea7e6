#pragma once

// Strategies side by side: what a name on --strategies means, which arms are the same plan and what made them so, and
// which of them compute the same bits. Pure but for loading plugins.

#include <string>
#include <vector>

#include "engine/planning.h"
#include "reshard/compare.h"
#include "reshard/job.h"

namespace reshard::cli {

// The arm of a name: a variant of the job, else a strategy's name or path.
Arm make_arm(const Job& job, const std::string& name);

struct PlannedArm {
  Arm arm;
  engine::PlannedStrategy planned;
  int same_as = -1;          // the first earlier arm with the same plan hash
  std::string same_because;  // "job.toml:14:1 (after_forward of h.0 and h.1)"
};

// engine::plan_strategy, of several strategies: an override that one of them cannot take says which one.
engine::PlannedStrategy plan_named(const std::string& who, const Job& job, const Model& model,
                                   const StrategyChoice& choice, int optimizer_states);

// Plans every arm; does not check the budget. Throws Error (config, plugin, plan).
std::vector<PlannedArm> plan_arms(const Job& job, const Model& model, const std::vector<Arm>& arms,
                                  int optimizer_states);

// The job that ranks start with before the arms take their turns: the first arm's strategy, and of its own options
// those that every arm of that strategy sets. What is in a job's options stays in every later switch to that strategy,
// so no arm's options may stand there that another arm leaves at their defaults.
Job launch_job(Job job, const std::vector<PlannedArm>& arms);

// Why two plans with one hash are one, in a user's words: the lines that overrode what the strategies would have
// decided
// (`a_free`, `b_free`: the same two without any override; null where that could not be planned), or that they differ
// only in units without parameters, or that the strategies decide alike.
std::string same_plan_reason(const Plan& a, const Plan& b, const Plan* a_free, const Plan* b_free);

// Whether `plan` gives the same bits as `first` (design.md, "What is bit-identical"), and why.
struct Promise {
  bool same_bits = false;
  std::string why;
};
Promise promise(const Plan& first, const Plan& plan, const Job& job);

}  // namespace reshard::cli
