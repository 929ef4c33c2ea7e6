#pragma once

// From a job and a model to an accepted plan and its price, before any rank starts: what explain prints, what the
// budget is checked against, and what the runtime then carries out. Pure but for loading the plugin; the same on every
// rank.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "reshard/job.h"
#include "reshard/model.h"
#include "reshard/report.h"
#include "reshard/runtime.h"
#include "schedule/declared.h"
#include "schedule/scheduler.h"
#include "schedule/totals.h"
#include "strategy/plan.h"
#include "strategy/summary.h"

namespace reshard::engine {

// What one unit weighs.
struct UnitBytes {
  int64_t whole = 0, shard = 0, saved = 0;  // saved: per micro-batch, as the program declares
  Dtype dtype = Dtype::fp32;                // of the whole unit; a shard is fp32 in any case
};

// Kept units that are priced, the largest ones.
inline constexpr std::size_t kMostPriced = 64;

// A unit that the plan keeps, and what that costs: how much lower the predicted peak would be if it were freed after
// forward and backward instead.
struct KeptUnit {
  int unit = 0;
  int64_t peak_bytes = 0;
};

// Which code decided: what a manifest says, and what ranks compare.
struct PluginIdentity {
  std::string sha256;                                        // of the file that was loaded
  std::string abi, required_abi, vendor, build;              // as StrategyInfo says them
  std::vector<std::pair<std::string, std::string>> options;  // after defaults, as TOML, by name
};

struct PlannedStrategy {
  std::string name, version, file, summary;
  PluginIdentity identity;
  std::string variant;  // of the job, that was chosen by its name; empty: none was
  Plan plan;
  TrafficByOp traffic;            // of one declared step, bytes received per rank
  MemoryPeak peak;                // predicted, of the declared step
  std::vector<UnitBytes> units;   // in the model's order
  std::vector<KeptUnit> kept;     // the largest kMostPriced of them, in the model's order
  std::size_t kept_unpriced = 0;  // kept, too, and smaller
  std::vector<std::string> log;   // what the plugin logged while deciding, "warn: …"
  bool takes_feedback = false;    // it is told what steps show, and may decide anew between two of them
};

// Throws Error(config) for a mesh that this build cannot run.
void check_mesh(const Job& job);

// Throws Error(config) where a launcher has started other processes than the job has ranks.
void check_launcher(const Job& job);

// Throws Error (config, plugin) at the job's own place for a variant that has an installed strategy's name or whose
// plugin is not there, and for a table [strategy.options.NAME] of a strategy that is neither installed nor named in the
// job. No plugin is loaded for that: whether a variant's options are its plugin's own is seen when the variant is used.
void check_names(const Job& job);

// Throws Error(config) at the entry's own place for an [[optimizer.group]] that fits no parameter of the model, or none
// that is updated, or that sets nothing.
void check_groups(const Job& job, const Model& model);

// job.strategy's own choice: plugin and options, at the place where the job names it.
StrategyChoice chosen_strategy(const Job& job);

// A strategy that was loaded for a job and a model, and decides: once, or again after it was told of a step. One
// thread.
class Deciding {
 public:
  // Finds and loads the plugin (of the variant, where `choice` names one). Checks the job's groups against the model.
  // `optimizer_states`: state tensors per parameter of the optimizer that will run. REQUIRES: job and model outlive
  // this.
  Deciding(const Job& job, const Model& model, const StrategyChoice& choice, int optimizer_states);
  ~Deciding();
  Deciding(const Deciding&) = delete;
  Deciding& operator=(const Deciding&) = delete;

  // Asks it, resolves the user's overrides and predicts; does not check the budget. Throws Error (config, plugin,
  // plan): config for a number format that the program does not compute in, too.
  PlannedStrategy decide();

  bool takes_feedback() const;
  bool tell(const StepSummary& step);  // true: it asks to decide anew. REQUIRES: takes_feedback()

 private:
  struct Strategy;
  const Job& job_;
  const Model& model_;
  const int optimizer_states_;
  std::string variant_;
  std::vector<std::string> log_;  // since the last decision; before the strategy, which writes it to its end
  std::unique_ptr<Strategy> strategy_;
};

// One decision: what explain prints and the first step of a run has.
PlannedStrategy plan_strategy(const Job& job, const Model& model, const StrategyChoice& choice, int optimizer_states);

// State tensors per parameter of the job's built-in optimizer: adamw 2, sgd 0 or 1; "program" counts as 0 here.
int optimizer_states(const Job& job);

// Throws Error(budget) naming the largest contributors when [memory] budget is set and the predicted peak is above it.
void check_budget(const Job& job, const PlannedStrategy& planned);

// What units are computed in and gradients are added in: the job's [precision], the program's words, the user's entries.
schedule::Precision precision(const Job& job, const Model& model);

// What a runtime holds all the time: shards, optimizer state, the buffer that widens reduced gradients, and what the
// program declares to hold.
schedule::BytesByCategory resident_bytes(const Job& job, const Model& model, int shards, int optimizer_states);

// The scheduler's input for a plan.
schedule::Step make_step(const Job& job, const Model& model, const Plan& plan);

// Predicted traffic and peak of one declared step of a plan.
void predict(const Job& job, const Model& model, const Plan& plan, int optimizer_states, TrafficByOp& traffic,
             MemoryPeak& peak);

}  // namespace reshard::engine
