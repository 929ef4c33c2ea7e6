#pragma once

// One rank's runtime behind the public face (reshard/runtime.h): ties the scheduler, which says what to do, to the
// executor, which does it, and keeps the step's numbers. One thread, the rank's.

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/device.h"
#include "engine/executor.h"
#include "engine/groups.h"
#include "engine/planning.h"
#include "memory/pool.h"
#include "optim/clip.h"
#include "optim/schedule.h"
#include "reshard/runtime.h"
#include "schedule/scheduler.h"

namespace reshard::engine {

class Core {
 public:
  Core(const Job& job, const Model& model, Rank& rank, std::unique_ptr<Optimizer> optimizer);
  ~Core();

  void fill(const Fill& fill);
  std::vector<float> read(std::string_view parameter);

  View hook(schedule::Hook hook, Unit unit, bool backward);  // before_forward, before_backward
  void hook(schedule::Hook hook, Unit unit = {-1});          // all others
  void abandon() noexcept;

  void begin_step();
  void begin_micro_batch();
  MicroBatch micro_batch() const;
  void reduce();
  void agree(double loss_sum);  // exchanges losses and stop requests; throws for a loss that is not finite
  double gradient_norm();
  void update(double norm);
  StepResult end_step(double loss_sum);
  void count_evaluation() { ++evaluations_; }

  SwitchResult switch_strategy(const StrategyChoice& choice);
  Buffer allocate(int64_t bytes);
  void request_stop() { stop_.store(true, std::memory_order_relaxed); }

  Report report() const;
  void reset_peak() { pool_.ledger().reset_peak(); }
  int64_t steps_done() const { return steps_; }
  Rank& rank() { return rank_; }
  const Model& model() const { return model_; }
  const Job& job() const { return job_; }

 private:
  void run(schedule::Hook hook, int unit, std::span<const schedule::Op> ops);
  void adopt_plan(PlannedStrategy planned);
  void compare_plans(const PlannedStrategy& planned);
  void optimize(const StepInfo& info);
  double divisor() const;

  const Job job_;
  const Model model_;
  Rank& rank_;
  std::unique_ptr<Optimizer> optimizer_;
  memory::Pool pool_;  // before everything that holds blocks of it
  std::unique_ptr<device::Stream> stream_;
  Groups groups_;
  PlannedStrategy planned_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<schedule::Scheduler> scheduler_;
  std::vector<std::vector<float*>> state_pointers_;  // by unit, rebuilt with the layout

  std::atomic<bool> stop_{false};
  StepResult step_;
  bool agreed_ = false;
  bool relay_failed_ = false;
  int64_t steps_ = 0, evaluations_ = 0, prefetches_unused_before_ = 0, deviations_before_ = 0;
  int64_t step_began_ns_ = 0, step_exposed_ns_ = 0;
};

}  // namespace reshard::engine
