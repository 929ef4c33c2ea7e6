// The public compare(): two runs, the reference and the one in which strategies take turns, and what they say.

#include "reshard/compare.h"

#include <algorithm>

#include <fmt/format.h>

#include "cli/arms.h"
#include "cli/compare_run.h"
#include "cli/compare_verdict.h"
#include "cli/loaded_job.h"
#include "cli/run_record.h"
#include "engine/optimizers.h"
#include "reshard/error.h"

namespace reshard {
namespace {

using cli::PlannedArm;

void check_options(const CompareOptions& options) {
  if (options.arms.size() < 2)
    throw Error(ErrorCode::config,
                fmt::format("{} to compare", options.arms.empty() ? "no strategies" : "only one strategy"), "",
                "name two or more, as in --strategies A,B");
  if (options.blocks < 1 || options.block_steps < 2)
    throw Error(ErrorCode::config,
                fmt::format("{} blocks of {} steps cannot be timed", options.blocks, options.block_steps), "",
                "use at least 1 block of 2 steps: the first step of a block is not timed");
}

int states_of(const Job& job, const CompareOptions& options) {
  if (job.optimizer.name != "program" || !options.optimizer) return engine::optimizer_states(job);
  return engine::checked_states(*options.optimizer());
}

// Arms that promise the first one's bits take their turns first, so that each has turns before others change the state.
std::vector<int> turn_order(const std::vector<ArmResult>& arms) {
  std::vector<int> order;
  for (const bool promised : {true, false})
    for (std::size_t i = 0; i < arms.size(); ++i)
      if (arms[i].promised == promised) order.push_back(static_cast<int>(i));
  return order;
}

std::vector<ArmResult> make_results(const std::vector<PlannedArm>& planned, const Job& job) {
  std::vector<ArmResult> arms;
  for (const PlannedArm& one : planned) {
    engine::check_budget(job, one.planned);
    ArmResult arm;
    arm.name = one.arm.name;
    arm.strategy = one.planned.name;
    arm.version = one.planned.version;
    arm.file = one.planned.file;
    arm.plan_hash = one.planned.plan.hash();
    if (one.same_as >= 0) arm.same_plan_as = planned[static_cast<std::size_t>(one.same_as)].arm.name;
    arm.same_plan_because = one.same_because;
    arm.predicted = one.planned.peak;
    arm.log = one.planned.log;
    const cli::Promise promise = cli::promise(planned.front().planned.plan, one.planned.plan, job);
    arm.promised = promise.same_bits;
    arm.promise = promise.why;
    arms.push_back(std::move(arm));
  }
  return arms;
}

}  // namespace

Comparison compare(const Job& job, const Model& model, const CompareOptions& options, const Training& training) {
  check_options(options);
  Comparison comparison;
  comparison.blocks = options.blocks;
  comparison.block_steps = options.block_steps;
  comparison.steps = static_cast<int64_t>(options.arms.size()) * options.blocks * options.block_steps;
  comparison.microbatches = job.train.microbatches;

  Job all = job;
  all.train.steps = comparison.steps;  // what the learning-rate schedule spans, in both runs
  const std::vector<PlannedArm> planned = cli::plan_arms(all, model, options.arms, states_of(job, options));
  comparison.ranks = planned.front().planned.plan.ranks;
  comparison.arms = make_results(planned, all);

  const cli::CompareRun run{options,
                            model,
                            training,
                            planned,
                            cli::launch_job(all, planned),
                            turn_order(comparison.arms),
                            2 * comparison.steps};
  cli::Reference reference;
  run_reference(run, reference);
  cli::Measured measured;
  run_turns(run, reference, measured);
  if (!cli::is_another_rank(job)) cli::judge(reference, measured, comparison);  // only the first rank has measured
  return comparison;
}

}  // namespace reshard
