#include "engine/core.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "engine/optimizers.h"
#include "reshard/error.h"
#include "schedule/totals.h"

namespace reshard::engine {

using schedule::Hook;
using schedule::Op;
using schedule::OpKind;

namespace {

constexpr comm::Tag kNoUnit{};
constexpr int kMostStates = 8;

// A NaN has a sign bit that means nothing to anybody.
std::string number_text(double value) {
  return std::isnan(value) ? "nan" : fmt::format("{}", value);
}

std::unique_ptr<device::Stream> make_stream(const Job& job, int rank) {
  if (!job.mesh.overlap) return device::make_inline_stream();
  return device::make_worker_stream(fmt::format("comm {}", rank).c_str());
}

}  // namespace

Core::Core(const Job& job, const Model& model, Rank& rank, std::unique_ptr<Optimizer> optimizer)
    : job_(job),
      model_(model),
      rank_(rank),
      optimizer_(choose_optimizer(job, std::move(optimizer))),
      stream_(make_stream(job, rank.index())),
      groups_(rank.communicator()) {
  check(job_);
  if (const int wanted = job_.rank_count(); wanted != rank_.count())
    throw Error(ErrorCode::config,
                fmt::format("the job has {} ranks and this rank is one of {}", wanted, rank_.count()),
                job_.where("mesh.ranks"), "give launch and Runtime the same job");
  const int states = static_cast<int>(optimizer_->state_names().size());
  if (states > kMostStates)
    throw Error(ErrorCode::model, fmt::format("the optimizer {} names {} state tensors; at most {} are carried",
                                              optimizer_->name(), states, kMostStates));
  PlannedStrategy planned = plan_strategy(job_, model_, chosen_strategy(job_), states);
  check_budget(job_, planned);
  compare_plans(planned);
  executor_ = std::make_unique<Executor>(model_, model::Mesh(planned.plan.ranks, planned.plan.shards), rank_.index(),
                                         states, pool_, *stream_, groups_);
  adopt_plan(std::move(planned));
}

Core::~Core() {
  stream_->drain();
}

double Core::divisor() const {
  return static_cast<double>(rank_.count()) * job_.train.microbatches;
}

// Every rank decides for itself from the same facts; a rank with another plugin file or job would hang the others
// later.
void Core::compare_plans(const PlannedStrategy& planned) {
  struct Mine {
    char strategy[64] = {};
    char hash[17] = {};
  };
  Mine mine;
  planned.name.copy(mine.strategy, sizeof(mine.strategy) - 1);
  planned.plan.hash().copy(mine.hash, sizeof(mine.hash) - 1);
  std::vector<Mine> all(static_cast<std::size_t>(rank_.count()));
  rank_.communicator().exchange(mine, std::span<Mine>(all), kNoUnit);
  for (std::size_t r = 1; r < all.size(); ++r)
    if (std::string_view(all[r].hash) != all[0].hash)
      throw Error(ErrorCode::plan,
                  fmt::format("rank {} has plan {} of strategy {}, rank 0 has plan {} of strategy {}", r, all[r].hash,
                              all[r].strategy, all[0].hash, all[0].strategy),
                  "", "give every rank the same job, model and plugin files");
}

void Core::adopt_plan(PlannedStrategy planned) {
  planned_ = std::move(planned);
  std::vector<int> order;
  if (scheduler_ != nullptr) {
    order = scheduler_->recorded_order();
    prefetches_unused_before_ += scheduler_->prefetches_unused();
    deviations_before_ += scheduler_->order_deviations();
  }
  schedule::Step step = make_step(job_, model_, planned_.plan);
  executor_->set_divisor(divisor());
  // In the order of units, which is the same on every rank: making a communicator is collective.
  for (const schedule::ScheduledUnit& unit : step.units)
    if (unit.decision.after_forward.kind == AfterForward::Kind::shrink && unit.shard_bytes > 0)
      executor_->prepare_partial(unit.decision.after_forward.ranks);
  scheduler_ = std::make_unique<schedule::Scheduler>(std::move(step), std::move(order));
  state_pointers_.clear();
  for (int u = 0; u < executor_->unit_count(); ++u) {
    std::vector<float*> pointers;
    for (memory::Block& state : executor_->at(u).states) pointers.push_back(state.as<float>());
    state_pointers_.push_back(std::move(pointers));
  }
}

void Core::fill(const Fill& fill) {
  hook(Hook::release);  // what an evaluation left whole would be stale
  for (int u = 0; u < executor_->unit_count(); ++u) {
    UnitMemory& unit = executor_->at(u);
    for (const model::Fragment& fragment : unit.fragments)
      fill(model_.spec({u}).parameters[static_cast<std::size_t>(fragment.parameter)].name, fragment.offset,
           std::span(unit.shard.as<float>() + fragment.shard_offset, static_cast<std::size_t>(fragment.length)));
  }
}

std::vector<float> Core::read(std::string_view parameter) {
  const Model::Place place = model_.find_parameter(parameter);
  try {
    hook(Hook::before_read, place.unit);
    const model::Layout& layout = executor_->at(place.unit.index).layout;
    const float* values = executor_->whole(place.unit.index) + layout.offset(place.index);
    std::vector<float> copy(values, values + layout.elements(place.index));
    hook(Hook::after_read, place.unit);
    return copy;
  } catch (...) {
    abandon();
    throw;
  }
}

View Core::hook(Hook hook, Unit unit, bool backward) {
  run(hook, unit.index, scheduler_->on(hook, unit.index));
  View view;
  view.parameters_ = executor_->whole(unit.index);
  view.gradients_ = backward ? executor_->gradient(unit.index) : nullptr;
  view.layout_ = &executor_->at(unit.index).layout;
  return view;
}

void Core::hook(Hook hook, Unit unit) {
  run(hook, unit.index, scheduler_->on(hook, unit.index));
}

void Core::run(Hook hook, int unit, std::span<const Op> ops) {
  if (relay_failed_)
    throw Error(ErrorCode::plan, "this runtime failed while it laid parameters out anew for another shard_over", "",
                "end the run; what it had learnt since is lost");
  pool_.ledger().set_moment({.hook = static_cast<int>(hook), .unit = unit, .microbatch = scheduler_->micro_batch()});
  for (const Op& op : ops)
    if (op.kind != OpKind::update) executor_->run(op);
}

void Core::abandon() noexcept {
  stream_->drain();
  scheduler_->on(Hook::abandon);
  executor_->give_back();
}

// ---- A step

void Core::begin_step() {
  hook(Hook::begin_step);
  step_ = StepResult{};
  step_.step = steps_;
  agreed_ = false;
  step_began_ns_ = now_ns();
  step_exposed_ns_ = executor_->meter().exposed_ns();
}

void Core::begin_micro_batch() {
  hook(Hook::begin_micro_batch);
}

MicroBatch Core::micro_batch() const {
  return {steps_, scheduler_->micro_batch(), job_.train.microbatches};
}

void Core::reduce() {
  hook(Hook::reduce);
}

void Core::agree(double loss_sum) {
  struct Mine {
    double loss_sum = 0;
    int64_t stop = 0;
  };
  const Mine mine{loss_sum, stop_.load(std::memory_order_relaxed) ? 1 : 0};
  std::vector<Mine> all(static_cast<std::size_t>(rank_.count()));
  rank_.communicator().exchange(mine, std::span<Mine>(all), kNoUnit);
  double sum = 0;
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (!std::isfinite(all[r].loss_sum))
      throw Error(ErrorCode::numeric,
                  fmt::format("the loss is {} on rank {} at step {}", number_text(all[r].loss_sum), r, steps_), "",
                  "lower [optimizer] lr, set clip_norm, or look at the data of that step");
    sum += all[r].loss_sum;
    step_.stop_requested = step_.stop_requested || all[r].stop != 0;
  }
  step_.loss = sum / divisor();
  agreed_ = true;
}

double Core::gradient_norm() {
  reduce();  // without effect where the program has called it
  optim::NormSum mine;
  for (int u = 0; u < executor_->unit_count(); ++u) {
    const UnitMemory& unit = executor_->at(u);
    if (!unit.gradient_shard) continue;
    for (const model::Fragment& part : unit.fragments)
      if (model_.spec({u}).parameters[static_cast<std::size_t>(part.parameter)].trainable)
        mine.add({unit.gradient_shard.as<float>() + part.shard_offset, static_cast<std::size_t>(part.length)});
  }
  comm::Communicator& group = executor_->shard_group();  // replicas hold the same gradients
  std::vector<optim::NormSum> all(static_cast<std::size_t>(group.size()));
  group.exchange(mine, std::span<optim::NormSum>(all), kNoUnit);
  optim::NormSum sum;
  for (const optim::NormSum& part : all) sum.merge(part);
  const double norm = sum.norm();
  if (!std::isfinite(norm))
    throw Error(ErrorCode::numeric, fmt::format("the gradient norm is {} at step {}", number_text(norm), steps_), "",
                "lower [optimizer] lr, set clip_norm, or look at the data of that step");
  return norm;
}

void Core::update(double norm) {
  const Job::Optimizer& settings = job_.optimizer;
  StepInfo info;
  info.step = steps_ + 1;
  info.lr = settings.lr * learning_rate_multiplier(job_, steps_);
  info.gradient_scale = optim::clip_factor(norm, settings.clip_norm);
  step_.gradient_norm = norm;
  step_.lr = info.lr;
  const std::span<const Op> ops = scheduler_->on(Hook::update);
  pool_.ledger().set_moment(
      {.hook = static_cast<int>(Hook::update), .unit = -1, .microbatch = scheduler_->micro_batch()});
  for (const Op& op : ops) {
    if (op.kind == OpKind::update)
      optimize(info);
    else
      executor_->run(op);
  }
}

void Core::optimize(const StepInfo& info) {
  int first_parameter = 0;  // the unit's, in the model
  for (int u = 0; u < executor_->unit_count(); ++u) {
    UnitMemory& unit = executor_->at(u);
    const auto& parameters = model_.spec({u}).parameters;
    const int first = std::exchange(first_parameter, first_parameter + static_cast<int>(parameters.size()));
    if (!unit.gradient_shard) continue;  // the unit took no part in this step
    const std::vector<float*>& states = state_pointers_[static_cast<std::size_t>(u)];
    float* at_fragment[kMostStates];
    for (const model::Fragment& part : unit.fragments) {
      const Parameter& parameter = parameters[static_cast<std::size_t>(part.parameter)];
      if (!parameter.trainable) continue;
      for (std::size_t s = 0; s < states.size(); ++s) at_fragment[s] = states[s] + part.shard_offset;
      Fragment fragment;
      fragment.parameter = first + part.parameter;
      fragment.name = parameter.name;
      fragment.shape = parameter.shape;
      fragment.group.lr_scale = parameter.lr_scale;
      if (!parameter.decay) fragment.group.weight_decay = 0.0;
      fragment.offset = part.offset;
      fragment.length = part.length;
      fragment.values = unit.shard.as<float>() + part.shard_offset;
      fragment.gradient = unit.gradient_shard.as<float>() + part.shard_offset;
      fragment.state = {at_fragment, states.size()};
      optimizer_->update(fragment, info);
    }
  }
}

StepResult Core::end_step(double loss_sum) {
  if (!agreed_) agree(loss_sum);
  hook(Hook::end_step);
  ++steps_;
  const int64_t now = now_ns();
  step_.seconds = static_cast<double>(now - step_began_ns_) * 1e-9;
  step_.seconds_exposed = static_cast<double>(executor_->meter().exposed_ns() - step_exposed_ns_) * 1e-9;
  return step_;
}

// ---- Between steps

SwitchResult Core::switch_strategy(const StrategyChoice& choice) {
  const int64_t began = now_ns();
  PlannedStrategy planned = plan_strategy(job_, model_, choice, static_cast<int>(optimizer_->state_names().size()));
  check_budget(job_, planned);
  compare_plans(planned);
  SwitchResult result;
  result.strategy = planned.name;
  result.plan_hash = planned.plan.hash();
  result.same_plan = result.plan_hash == planned_.plan.hash();
  hook(Hook::release);
  reset_peak();
  if (planned.plan.shards != planned_.plan.shards) {
    result.relaid = true;
    relay_failed_ = true;  // until it is done: half of the units would have the new layout
    result.bytes_relaid = executor_->relay(model::Mesh(planned.plan.ranks, planned.plan.shards));
    relay_failed_ = false;
  }
  adopt_plan(std::move(planned));
  result.peak_bytes = pool_.ledger().peak().total();
  reset_peak();
  result.seconds = static_cast<double>(now_ns() - began) * 1e-9;
  return result;
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
  report.system_bytes = pool_.system_bytes();
  report.system_allocations = pool_.allocations_from_system();
  return report;
}

}  // namespace reshard::engine
