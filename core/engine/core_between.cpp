// What happens between steps: another strategy, the program's own memory, the report.

#include <utility>

#include <fmt/format.h>

#include "engine/core.h"
#include "reshard/error.h"
#include "schedule/totals.h"

namespace reshard::engine {

using schedule::Hook;

SwitchResult Core::switch_strategy(const StrategyChoice& choice) {
  return between_steps([&] { return change_strategy(choice); });
}

SwitchResult Core::change_strategy(const StrategyChoice& choice) {
  const int64_t began = now_ns();
  if (scheduler_->carries())
    throw Error(ErrorCode::plan, "a strategy is not switched while gradients are carried over to the next update", "",
                "update first, or drop them with Runtime::zero_gradients");
  const int states = static_cast<int>(optimizer_->state_names().size());
  auto deciding = std::make_unique<Deciding>(job_, model_, choice, states);
  PlannedStrategy planned = deciding->decide();
  check_budget(job_, planned);
  compare_plans(planned);
  SwitchResult result = take_up(std::move(planned));
  deciding_ = std::move(deciding);
  result.seconds = static_cast<double>(now_ns() - began) * 1e-9;
  return result;
}

// All ranks have accepted this plan.
SwitchResult Core::take_up(PlannedStrategy planned) {
  SwitchResult result;
  result.strategy = planned.name;
  result.plan_hash = planned.plan.hash();
  result.same_plan = result.plan_hash == planned_.plan.hash();
  hook(Hook::release);
  reset_peak();
  if (planned.plan.shards != planned_.plan.shards) {
    result.relaid = true;
    broken_ = "it laid parameters out anew for another shard_over";  // half of the units would have the new layout
    result.bytes_relaid = executor_->relay(model::Mesh(planned.plan.ranks, planned.plan.shards));
    broken_ = nullptr;
  }
  adopt_plan(std::move(planned));
  meet();
  result.peak_bytes = pool_.ledger().peak().total();
  reset_peak();
  return result;
}

void Core::zero_gradients() {
  if (scheduler_->carries()) ++dropped_;
  hook(Hook::drop_carried);
}

Buffer Core::allocate(int64_t bytes) {
  auto block = std::make_unique<memory::Block>(pool_.allocate(bytes, MemoryCategory::activations));
  Buffer buffer;
  buffer.data_ = block->data();
  buffer.bytes_ = bytes;
  buffer.block_ = {block.release(), [](void* owner) { delete static_cast<memory::Block*>(owner); }};
  return buffer;
}

Report Core::report() const {
  Report report;
  report.strategy = planned_.name;
  report.strategy_version = planned_.version;
  report.strategy_file = planned_.file;
  report.plan_hash = planned_.plan.hash();
  report.ranks = planned_.plan.ranks;
  report.shards = planned_.plan.shards;
  report.steps = steps_;
  report.steps_skipped = skipped_;
  report.steps_skipped_by_program = skipped_by_program_;
  report.forward_only_passes = evaluations_;
  report.prefetches_unused = prefetches_unused_before_ + scheduler_->prefetches_unused();
  report.order_deviations = deviations_before_ + scheduler_->order_deviations();
  report.traffic = executor_->meter().traffic();
  report.traffic_declared = planned_.traffic;
  report.predicted = planned_.peak;
  const memory::Ledger& ledger = pool_.ledger();
  for (int c = 0; c < kMemoryCategories; ++c)
    report.measured.bytes[static_cast<std::size_t>(c)] = ledger.peak()[static_cast<MemoryCategory>(c)];
  const memory::Moment& moment = ledger.peak_moment();
  report.measured.unit = moment.unit < 0 ? "" : model_.name({moment.unit});
  report.measured.moment = moment.hook < 0 ? "before the first step"
                                           : schedule::moment_text(static_cast<Hook>(moment.hook), moment.microbatch);
  report.replans = replans_;
  report.system_bytes = pool_.system_bytes();
  report.system_allocations = pool_.allocations_from_system();
  return report;
}

}  // namespace reshard::engine
