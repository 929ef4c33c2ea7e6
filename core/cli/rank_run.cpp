#include "cli/rank_run.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/math.h"
#include "cli/loaded_job.h"
#include "cli/train_text.h"
#include "reshard/error.h"

namespace reshard::cli {

const MemoryPeak& larger(const MemoryPeak& a, const MemoryPeak& b) {
  return b.total() > a.total() ? b : a;
}

MemoryPeak of_fullest_rank(Rank& rank, const MemoryPeak& mine) {
  const std::vector<double> totals = rank.exchange(static_cast<double>(mine.total()));
  const auto fullest = std::max_element(totals.begin(), totals.end()) - totals.begin();
  MemoryPeak peak = mine;
  for (int64_t& bytes : peak.bytes)
    bytes = static_cast<int64_t>(rank.exchange(static_cast<double>(bytes))[static_cast<std::size_t>(fullest)]);
  return peak;
}

RankRun::RankRun(const Setup& setup, Rank& rank)
    : setup_(setup), rank_(rank), runtime_(setup.job, setup.model, rank, program_optimizer(setup.program, setup.job)) {
  trainer_ = setup.program.trainer(setup.job, runtime_);
}

double RankRun::seconds() const {
  return began_ ? std::chrono::duration<double>(std::chrono::steady_clock::now() - *began_).count() : 0;
}

void RankRun::run() {
  try {
    trainer_->fill(runtime_);
    rank_.barrier();  // all of them have started
    setup_.interrupt.steps_begin();
    began_ = std::chrono::steady_clock::now();
    begin_phase();
    run_steps();
  } catch (...) {
    if (rank_.first()) {
      take_peak(in_steps_);
      if (!setup_.record.phases.empty()) setup_.record.phases.back().measured = in_steps_;
      setup_.record.between_steps = between_steps_;
      setup_.record.report = runtime_.report();
      setup_.record.seconds = seconds();
    }
    throw;
  }
}

void RankRun::run_steps() {
  bool stopped = false;
  for (int64_t index = 0; index < setup_.job.train.steps && !stopped; ++index) {
    switch_if_due(index);
    stopped = !step(index);
  }
  end_phase();
  if (rank_.first()) {
    setup_.progress.finish();
    setup_.record.report = runtime_.report();
    setup_.record.seconds = seconds();
  }
  if (!stopped) sample();
  const MemoryPeak between = of_fullest_rank(rank_, between_steps_);
  if (rank_.first()) setup_.record.between_steps = between;
}

bool RankRun::step(int64_t index) {
  const StepResult result = runtime_.step([&](MicroBatch at) {
    const double loss = trainer_->micro_batch(runtime_, at);
    if (setup_.interrupt.came()) runtime_.request_stop();
    return loss;
  });
  if (rank_.first()) {
    setup_.record.steps.push_back(result);
    ++setup_.record.phases.back().steps;
  }
  if (result.decided_anew) follow_new_plan();
  std::optional<double> validation;
  if (!result.stop_requested) validation = validate_if_due(index + 1);
  if (rank_.first()) setup_.progress.step(result, validation);
  if (rank_.first() && result.decided_anew)
    setup_.progress.note("  " + replan_text(runtime_.report().strategy, setup_.record.replans.back()));
  return !result.stop_requested;
}

std::optional<double> RankRun::validate_if_due(int64_t steps_done) {
  const Job::Train& train = setup_.job.train;
  if (train.evaluate_every == 0 || (steps_done % train.evaluate_every != 0 && steps_done != train.steps))
    return std::nullopt;
  take_peak(in_steps_);
  const auto began = std::chrono::steady_clock::now();
  std::optional<double> mine;
  runtime_.evaluate([&] { mine = trainer_->evaluate(runtime_); });
  take_peak(between_steps_);
  if (!mine) {  // of the program's kind, so of all ranks
    if (rank_.first()) setup_.record.validation_missing = true;
    return std::nullopt;
  }
  double sum = 0;
  for (const double part : rank_.exchange(*mine)) sum += part;
  const double loss = base::one_nan(sum / rank_.count());
  if (!std::isfinite(loss))
    throw Error(ErrorCode::numeric, fmt::format("the validation loss is {} after {} steps", loss, steps_done), "",
                "lower [optimizer] lr, set clip_norm, or look at the validation data");
  const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  if (rank_.first()) setup_.record.validation.push_back({steps_done, loss, took});
  return loss;
}

void RankRun::switch_if_due(int64_t steps_done) {
  const std::vector<Job::Switch>& switches = setup_.job.strategy.switches;
  if (next_switch_ >= switches.size() || switches[next_switch_].at_step != steps_done) return;
  const Job::Switch& change = switches[next_switch_++];
  end_phase();
  const SwitchResult result = runtime_.switch_strategy({change.plugin, change.options, change.where});
  take_peak(between_steps_);
  begin_phase();
  if (!rank_.first()) return;
  setup_.record.switches.push_back({steps_done, change.where, result});
  setup_.progress.note("  " + switch_text(setup_.record.switches.back()));
}

// The runtime has counted the plan before for itself, because it begins to count anew with each.
void RankRun::follow_new_plan() {
  const Replan replan = runtime_.report().replans.back();
  in_steps_ = larger(in_steps_, replan.measured_before);
  const MemoryPeak measured = of_fullest_rank(rank_, in_steps_);
  if (rank_.first()) {
    setup_.record.phases.back().measured = measured;
    setup_.record.replans.push_back(replan);
  }
  runtime_.reset_peak();
  begin_phase();
}

void RankRun::begin_phase() {
  in_steps_ = {};
  if (!rank_.first()) return;
  const Report report = runtime_.report();
  setup_.record.phases.push_back({report.strategy, report.plan_hash, 0, report.predicted, {}});
}

void RankRun::end_phase() {
  take_peak(in_steps_);
  const MemoryPeak measured = of_fullest_rank(rank_, in_steps_);
  if (rank_.first()) setup_.record.phases.back().measured = measured;
}

void RankRun::take_peak(MemoryPeak& largest) {
  largest = larger(largest, runtime_.report().measured);
  runtime_.reset_peak();
}

void RankRun::sample() {
  // A signal comes to some ranks earlier than to others; what one has seen is true for all.
  const auto stop = [&] {
    const std::vector<double> came = rank_.exchange(setup_.interrupt.came() ? 1 : 0);
    return std::any_of(came.begin(), came.end(), [](double one) { return one != 0; });
  };
  std::string text;
  runtime_.evaluate([&] { text = trainer_->sample(runtime_, stop); });
  take_peak(between_steps_);
  if (rank_.first()) setup_.record.sample = text;
}

}  // namespace reshard::cli
