#pragma once

// One rank's part of a training run: steps, validation, strategy switches, and what the memory held meanwhile. Made,
// run and destroyed on that rank's thread; every rank makes the same collective calls in the same order.

#include <chrono>
#include <memory>
#include <optional>

#include "cli/interrupt.h"
#include "cli/progress.h"
#include "cli/run_record.h"
#include "reshard/app.h"

namespace reshard::cli {

class RankRun {
 public:
  struct Setup {
    const Job& job;
    const Model& model;
    Program& program;
    const Interrupt& interrupt;
    RunRecord& record;   // written by the first rank alone
    Progress& progress;  // the same
  };
  RankRun(const Setup& setup, Rank& rank);

  // Fills the parameters, runs all steps, and samples. What happened is in the record even when this throws.
  void run();

 private:
  void run_steps();
  bool step(int64_t index);  // false: a signal ends the run after it
  void follow_new_plan();
  void switch_if_due(int64_t steps_done);
  std::optional<double> validate_if_due(int64_t steps_done);
  void sample();
  void begin_phase();
  void end_phase();
  void take_peak(MemoryPeak& largest);  // of the time since the last one
  double seconds() const;               // since the first step began; 0 before

  const Setup& setup_;
  Rank& rank_;
  Runtime runtime_;
  std::unique_ptr<Trainer> trainer_;
  MemoryPeak in_steps_, between_steps_;
  std::size_t next_switch_ = 0;
  std::optional<std::chrono::steady_clock::time_point> began_;
};

// The larger of two peaks by their totals.
const MemoryPeak& larger(const MemoryPeak& a, const MemoryPeak& b);

// The bytes of the rank that holds most, the moment as this rank saw it. [collective]
MemoryPeak of_fullest_rank(Rank& rank, const MemoryPeak& mine);

}  // namespace reshard::cli
