#pragma once

// The two runs of a comparison: the reference, which runs the first arm alone, and the one whose steps the arms share
// in turns. Both have the same number of steps and the same learning rates.

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "cli/arms.h"
#include "reshard/compare.h"

namespace reshard::cli {

struct CompareRun {
  const CompareOptions& options;
  const Model& model;
  const Training& training;
  const std::vector<PlannedArm>& arms;
  Job job;                  // that both runs launch with; every arm is switched to before its turn
  std::vector<int> turns;   // arms in the order in which they take turns
  int64_t total_steps = 0;  // of both runs
};

// Parameters that wait for the second run in a file without a name, which the system removes: a model need not fit
// into memory twice.
class ParameterFile {
 public:
  ParameterFile();  // throws Error(io)
  void append(const std::vector<float>& values);
  std::vector<float> next(std::size_t count);  // in the order of append(); rewind() first
  void rewind();

 private:
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

struct Reference {
  std::vector<double> losses;
  ParameterFile parameters;  // of all units, in the model's order
};

// One step of the run with turns, as the first rank knows it after exchanging with the others.
struct TurnStep {
  int arm = 0, block = 0;
  bool timed = false;
  double loss = 0;
  double seconds = 0;          // the slowest rank's
  double seconds_exposed = 0;  // the first rank's
};

struct ArmMeasured {
  MemoryPeak peak;
  MemoryPeak predicted;    // of the plan that had this peak
  int replans = 0;         // how often it decided anew in its turns
  bool adds_alike = true;  // none of those changed what gradients add up to
  TrafficByOp traffic;  // of all timed steps
  int blocks = 0;       // that were finished
};

struct Measured {
  std::vector<TurnStep> steps;  // of the turns that were finished
  std::vector<ArmMeasured> arms;
  bool parameters_identical = true;
  double largest_difference = 0;  // relative to the parameter's largest absolute value
  std::string differing_parameter;
};

// Both launch ranks, and throw what ended them: Error(interrupted) when options.stop said so before any turn was
// finished (a later stop leaves the turns that were), Error(plan) when a
// strategy's plan is another one than it was before the run.
void run_reference(const CompareRun& run, Reference& reference);
void run_turns(const CompareRun& run, Reference& reference, Measured& measured);

}  // namespace reshard::cli
