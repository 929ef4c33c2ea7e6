#pragma once

// What a training run leaves behind: plain values that the final tables and --json are made from, also when the run
// ended early. Filled by the first rank's thread while the ranks run, read by the main thread after they have ended.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/json.h"
#include "engine/planning.h"
#include "reshard/report.h"
#include "reshard/runtime.h"

namespace reshard::cli {

struct Validation {
  int64_t steps_done = 0;
  double loss = 0;
  double seconds = 0;
};

struct StrategySwitch {
  int64_t steps_done = 0;
  std::string where;  // the entry's place in the job
  SwitchResult result;
};

// The steps between two changes of the plan: one plan, and what its steps held at most on the rank that held most.
struct Phase {
  std::string strategy, plan_hash;
  int64_t steps = 0;
  MemoryPeak predicted, measured;
};

struct RunRecord {
  std::vector<StepResult> steps;
  std::vector<Validation> validation;
  bool validation_missing = false;  // one was due, and the program has none
  std::vector<StrategySwitch> switches;
  std::vector<Replan> replans;
  std::vector<Phase> phases;
  MemoryPeak between_steps;  // the largest of validation, samples and reading, when they ran
  std::optional<Report> report;
  std::string sample;
  double seconds = 0;          // from the first step to the last, validation and switches included
  int64_t resident_bytes = 0;  // the process's peak RSS
  int signal = 0;              // what ended the run early, 0 = nothing
  std::optional<Error> error;  // what ended it, if one did
};

// Of the timed steps: seconds of all, and of the middle one.
double step_seconds(const RunRecord& record);
double median_step_seconds(const RunRecord& record);
double median(std::vector<double> values);  // 0 when empty

int64_t peak_resident_bytes();  // of this process so far

Json to_json(const RunRecord& record, int64_t samples_per_step, const std::string& sample_unit);

}  // namespace reshard::cli
