#pragma once

// One rank's runtime behind the public face (reshard/runtime.h): ties the scheduler, which says what to do, to the
// executor, which does it, and keeps the step's numbers. One thread, the rank's. core.cpp has what is about units and
// hooks, core_step.cpp the stages of a step, core_between.cpp what happens between steps, core_feedback.cpp what a
// strategy is told of them.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/device.h"
#include "engine/executor.h"
#include "engine/groups.h"
#include "engine/optimizers.h"
#include "engine/planning.h"
#include "memory/pool.h"
#include "optim/clip.h"
#include "optim/schedule.h"
#include "reshard/runtime.h"
#include "schedule/scheduler.h"
#include "strategy/summary.h"

namespace reshard::engine {

// What a View looks at: a unit, and the numbers of its uses that are open. Its address does not change.
struct UnitUse {
  const UnitSpec* spec = nullptr;
  const UnitMemory* memory = nullptr;
  std::vector<uint64_t> open;
};

// What one rank's share of the gradient adds to the norm; [optimizer] norm says which of the two is filled.
struct NormPart {
  optim::NormSum squares;
  double largest = 0;
};

// What each rank tells the others once per step.
struct Told {
  double loss_sum = 0;
  int64_t stop = 0, dropped = 0;
};

// How a rank would end its step: what all must agree on, what it tells where it does so here, and what only a carry adds.
struct Ending {
  int64_t how = 0;  // a schedule::Hook
  double norm = 0;
  int64_t tells = 0;  // 1: the loss in `told` counts
  Told told;
  NormPart part;
};

inline constexpr comm::Tag kNoUnit{};

class Core {
 public:
  Core(const Job& job, const Model& model, Rank& rank, std::unique_ptr<Optimizer> optimizer);
  ~Core();

  void fill(const Fill& fill);
  std::vector<float> read(std::string_view parameter);
  void whole(Unit unit, const std::function<void(const Values&)>& look);

  View begin_use(schedule::Hook hook, Unit unit);        // before_forward, before_backward
  void end_use(schedule::Hook hook, Unit unit);          // after_forward, after_backward
  void hook(schedule::Hook hook, int subject = -1);      // all others
  void abandon() noexcept;

  void begin_step();
  void begin_micro_batch() { hook(schedule::Hook::begin_micro_batch); }
  MicroBatch micro_batch() const;
  void count_tokens(int64_t tokens);
  void reduce();
  double gradient_norm();  // throws for a norm that is not finite where the first skipped step ends the run
  void finish(double loss_sum);  // norm, agreement, then the update or the skip that all ranks agreed on
  void update(double norm, std::optional<double> loss_sum);
  void skip();
  void carry(std::optional<double> loss_sum);
  StepResult end_step(std::optional<double> loss_sum);
  void begin_evaluation();
  void end_evaluation();

  SwitchResult switch_strategy(const StrategyChoice& choice);
  void zero_gradients();
  Buffer allocate(int64_t bytes);
  void request_stop() { stop_.store(true, std::memory_order_relaxed); }

  Report report() const;
  void reset_peak() { pool_.ledger().reset_peak(); }
  int64_t steps_done() const { return steps_; }
  Rank& rank() { return rank_; }
  const Model& model() const { return model_; }
  const Job& job() const { return job_; }

 private:
  std::span<const schedule::Op> ask(schedule::Hook hook, int subject);
  void run(schedule::Hook hook, int unit, std::span<const schedule::Op> ops);
  // What all ranks do together between steps. An exception is told to the others, unless the call came inside of a step,
  // which is left as it is.
  template <typename Work>
  auto between_steps(const Work& work);
  SwitchResult change_strategy(const StrategyChoice& choice);
  SwitchResult take_up(PlannedStrategy planned);
  bool strategy_listens() const { return planned_.takes_feedback; }
  void tell_strategy();
  StepSummary summarise();
  void check_asked(bool anew);
  void decide_anew();
  void look_and_write(Unit unit, const std::function<void(const Values&)>& look);
  void check_usable() const;
  void check_not_looking() const;
  void ready();
  void meet();
  void adopt_plan(PlannedStrategy planned);
  void compare_plans(const PlannedStrategy& planned);
  NormPart measure_own_gradient();
  double norm_of(std::span<const NormPart> parts) const;
  std::string norm_text(double norm) const;
  double measure_gradient();
  Told told(double loss_sum) const;
  std::string agree(double loss_sum);
  std::string hear(std::span<const Told> all);
  std::vector<Ending> agree_to_end(schedule::Hook how, double norm, std::optional<double> loss_sum,
                                   const NormPart& part = {});
  std::string why_not(const std::vector<Ending>& all, double norm);
  void drop_gradients();
  void check_skips(const std::string& why);
  void check_dropped(int rank, int64_t dropped, int64_t first) const;
  void apply_update(double norm);
  void optimize(const StepInfo& info);
  uint64_t fingerprint(int unit, const float* values) const;
  void write_back(int unit, const float* values);

  const Job job_;
  const Model model_;
  Rank& rank_;
  std::unique_ptr<Optimizer> optimizer_;
  memory::Pool pool_;  // before everything that holds blocks of it
  std::unique_ptr<device::Stream> stream_;
  Groups groups_;
  std::unique_ptr<Deciding> deciding_;  // of planned_
  PlannedStrategy planned_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<schedule::Scheduler> scheduler_;
  std::vector<UnitUse> uses_;                        // by unit
  std::vector<std::vector<float*>> state_pointers_;  // by unit, rebuilt with the layout
  uint64_t uses_begun_ = 0;

  // What the job says in words and a step asks for.
  const bool by_tokens_, by_squares_;            // [train] divisor, [optimizer] norm
  const double plain_divisor_;                   // where it is not the tokens' number
  std::vector<ParameterGroup> parameter_groups_;  // in the model's order

  std::atomic<bool> stop_{false};
  StepResult step_;
  double divisor_ = 1;      // of this step
  int64_t tokens_ = 0;      // of this step, on this rank
  bool agreed_ = false;     // all ranks have come to this step's end with what they exchange there
  bool looking_ = false;    // the program is inside of whole()
  const char* broken_ = nullptr;  // what was under way when this runtime became unusable
  int64_t steps_ = 0, updates_ = 0, skipped_ = 0, skipped_in_a_row_ = 0, skipped_by_program_ = 0, evaluations_ = 0;
  int64_t dropped_ = 0;  // how often gradients that were carried over have been dropped
  int64_t prefetches_unused_before_ = 0, deviations_before_ = 0;
  int64_t step_began_ns_ = 0, step_exposed_ns_ = 0;
  std::vector<UnitExposed> units_began_;  // at the step's begin; empty where the strategy does not listen
  int64_t steps_of_plan_ = 0;
  int backward_uses_ = 0;  // that are open
  std::vector<Replan> replans_;
};

template <typename Work>
auto Core::between_steps(const Work& work) {
  const bool idle = scheduler_->idle();
  check_not_looking();
  try {
    ready();
    return work();
  } catch (...) {
    if (idle) abandon();
    throw;
  }
}

}  // namespace reshard::engine
