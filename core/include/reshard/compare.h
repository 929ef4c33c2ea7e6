#pragma once

// Strategies side by side on one training state: they take turns in blocks of steps, so that their timings are paired,
// and a run of the first one alone gives the bits to compare with. `PROGRAM compare` prints what this returns; a
// program without reshard::app calls it itself.
//
// compare() launches the ranks on its own and is called by one thread, outside of launch().

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "reshard/job.h"
#include "reshard/model.h"
#include "reshard/optimizer.h"
#include "reshard/report.h"
#include "reshard/runtime.h"

namespace reshard {

// One strategy to compare, under the name that tables use.
struct Arm {
  std::string name;
  StrategyChoice choice;
};

struct CompareOptions {
  std::vector<Arm> arms;  // two or more; the others are compared with the first
  int blocks = 4;         // per arm, >= 1
  int block_steps = 5;    // per block, >= 2; the first of them is not timed, nor is the switch before it

  // The program's own optimizer for `[optimizer] name = "program"`; empty otherwise. Called for the plan, and on every
  // rank's thread, for several ranks at the same time.
  std::function<std::unique_ptr<Optimizer>()> optimizer;

  // Called by the first rank after each step: steps done and to do, both runs together. May be empty.
  std::function<void(int64_t done, int64_t total)> progress;

  // Asked by every rank after each micro-batch; true ends all ranks after that step. compare() then returns what the
  // finished turns say, or throws Error(interrupted) when there is none yet. May be empty.
  std::function<bool()> stop;
};

// One rank's training, made on its thread once per run: it fills the runtime's parameters and returns what runs one
// micro-batch. Same input, same bits: what it returns may depend on the rank, the step and the micro-batch alone.
using Training = std::function<std::function<double(MicroBatch)>(Runtime&)>;

struct ArmResult {
  std::string name, strategy, version, file, plan_hash;
  std::string same_plan_as;       // an earlier arm with the same plan; empty: there is none
  std::string same_plan_because;  // the line that made them so: "job.toml:14:1 (after_forward of h.0)"
  std::vector<std::string> log;   // what the plugin warned of while it decided: "warning: …"

  int blocks = 0;               // turns that were finished
  int replans = 0;              // how often it decided anew in them; each turn begins with its first plan
  std::vector<double> seconds;  // of their timed steps, in order; the slowest rank's
  double median_seconds = 0;
  double ratio = 1, ratio_low = 1, ratio_high = 1;  // to the first arm, block by block: median, least, most
  double seconds_exposed = 0;                       // of a timed step, the first rank's median

  MemoryPeak predicted, measured;  // of the rank with the largest; switches and untimed steps are left out
  TrafficByOp traffic;             // of one timed step: means

  bool promised = false;          // same bits as the first arm's, by what the plans reduce and when
  std::string promise;            // why, or why not
  int64_t steps_compared = 0;     // steps of this arm whose losses were compared with the reference run's
  bool identical = false;         // all of those, bit for bit
  double largest_difference = 0;  // of those losses, relative
  std::string differs_since;      // an unpromised arm that had its turn before steps of this one; empty: none
  int64_t steps_after = 0;        // steps after that arm's turn, which it has changed: not in steps_compared
};

struct Comparison {
  int ranks = 1, microbatches = 1;
  int blocks = 0, block_steps = 0;
  int64_t steps = 0;       // of each of the two runs
  int64_t steps_done = 0;  // of the run with turns; less than `steps` where it was stopped
  bool stopped() const { return steps_done < steps; }
  std::vector<ArmResult> arms;

  // Parameters after the last step, against the reference run's; nothing is said of a stopped run's.
  bool parameters_promised = false;
  bool parameters_identical = false;
  double largest_difference = 0;    // relative to the parameter's largest absolute value
  std::string differing_parameter;  // where that is
};

// Plans all arms first (Error config, plugin, plan or budget before any rank starts), then runs; Error(plan) when a
// strategy decides otherwise in its turn than it did then. `job.strategy.plugin`, `job.strategy.switches` and
// `job.train.steps` are not read.
Comparison compare(const Job& job, const Model& model, const CompareOptions& options, const Training& training);

}  // namespace reshard
