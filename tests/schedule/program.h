#pragma once

// A training program on one scheduler, for the scheduler's property tests.

#include <span>
#include <vector>

#include "reshard/model.h"
#include "schedule/scheduler.h"
#include "schedule/totals.h"
#include "schedule/verify.h"
#include "tests/schedule/random_program.h"

namespace reshard::schedule {

// Every hook's ops go to the verifier and the totals, which must agree.
class Program {
 public:
  Program(const Model& model, Step step, Dice& dice);

  void declared_step() { play(declared_calls(model_, scheduler_.step())); }
  void random_step() { play(random_.step(scheduler_.step().microbatches)); }
  void random_evaluation() { play(random_.evaluation()); }
  void random_reads() { play(random_.reads()); }
  void release() { hook(Hook::release); }

  // Runs a random step up to a random hook, then abandons it.
  void abandoned_step();

  void hook(Hook hook, int unit = -1);

  bool at_rest() const { return totals_.now() == BytesByCategory{}; }
  const Totals& totals() const { return totals_; }
  const Verifier& verifier() const { return verifier_; }
  Scheduler& scheduler() { return scheduler_; }
  int most_live_gathers() const { return most_live_gathers_; }

 private:
  void play(const HookCalls& calls);
  void watch(int unit, std::span<const Op> ops);
  bool encloses(int outer, int inner) const;

  const Model& model_;
  Dice& dice_;
  RandomProgram random_;
  Scheduler scheduler_;
  Verifier verifier_;
  Totals totals_{BytesByCategory{}};
  std::vector<bool> gathered_;  // a gather's result, or one under way, is there
  int most_live_gathers_ = 0;
};

}  // namespace reshard::schedule
