#include "engine/core.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/fingerprint.h"
#include "engine/agreed.h"
#include "engine/failure_text.h"
#include "engine/optimizers.h"
#include "reshard/error.h"

namespace reshard::engine {

using schedule::Hook;
using schedule::Op;
using schedule::OpKind;

namespace {

// Hooks in which a rank learns of another's failure even if it only computes. Whatever ranks do together ends with all
// of them meeting; after that one may be further on, and what fails there must not reach back.
bool together(Hook hook) {
  switch (hook) {
    case Hook::begin_step:
    case Hook::begin_micro_batch:
    case Hook::enter_micro_batch:
    case Hook::before_forward:
    case Hook::after_forward:
    case Hook::before_backward:
    case Hook::after_backward:
    case Hook::reduce:
    case Hook::begin_evaluation:
    case Hook::before_read: return true;
    default: return false;
  }
}

bool idle_within(device::Stream& stream, std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  try {
    const device::Event last = stream.record();
    while (!last.done() && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return last.done();
  } catch (...) {  // it has failed: nothing is under way
    return true;
  }
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
      groups_(rank.communicator()),
      by_tokens_(job.train.divisor == "tokens"),
      by_squares_(job.optimizer.norm == "l2"),
      plain_divisor_(job.train.divisor == "none" ? 1.0 : static_cast<double>(rank.count()) * job.train.microbatches) {
  check(job_);
  if (const int wanted = job_.rank_count(); wanted != rank_.count())
    throw Error(ErrorCode::config,
                fmt::format("the job has {} ranks and this rank is one of {}", wanted, rank_.count()),
                job_.where("mesh.ranks"), "give launch and Runtime the same job");
  const int states = checked_states(*optimizer_);
  deciding_ = std::make_unique<Deciding>(job_, model_, chosen_strategy(job_), states);
  PlannedStrategy planned = deciding_->decide();
  check_budget(job_, planned);
  rank_.ready();  // another runtime's step may have failed on this rank
  compare_plans(planned);
  executor_ = std::make_unique<Executor>(model_, model::Mesh(planned.plan.ranks, planned.plan.shards), rank_.index(),
                                         precision(job_, model_), states, pool_, *stream_, groups_);
  for (int u = 0; u < model_.unit_count(); ++u) {
    uses_.push_back({&model_.spec({u}), &executor_->at(u), {}});
    uses_.back().open.reserve(8);  // a use inside another one of the same unit is rare
    for (const Parameter& parameter : model_.spec({u}).parameters)
      parameter_groups_.push_back(parameter_group(job_, parameter));
  }
  adopt_plan(std::move(planned));
}

// A rank that ends by an exception without abandon() may have a gather under way that the others will never come to,
// because they wait for this rank elsewhere: they are told then. Its own text follows where it can, from launch().
Core::~Core() {
  if (std::uncaught_exceptions() > 0 && !rank_.interrupted_ && !idle_within(*stream_, std::chrono::milliseconds(100))) {
    rank_.communicator().interrupt("it ended by an exception inside of a step");
    rank_.interrupted_ = true;
  }
  stream_->drain();
}

void Core::compare_plans(const PlannedStrategy& planned) {
  const Agreed mine = agreed_of(job_, model_, *optimizer_, planned);
  std::vector<Agreed> all(static_cast<std::size_t>(rank_.count()));
  rank_.communicator().exchange(mine, std::span<Agreed>(all), kNoUnit);
  check_agreed(all);
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
  // In the order of units, which is the same on every rank: making a communicator is collective.
  for (const schedule::ScheduledUnit& unit : step.units)
    if (unit.decision.after_forward.kind == AfterForward::Kind::shrink && unit.shard_bytes > 0)
      executor_->prepare_partial(unit.decision.after_forward.ranks);
  scheduler_ = std::make_unique<schedule::Scheduler>(std::move(step), std::move(order));
  steps_of_plan_ = 0;
  units_began_.clear();
  if (strategy_listens()) units_began_ = executor_->meter().by_unit();
  state_pointers_.clear();
  for (int u = 0; u < executor_->unit_count(); ++u) {
    std::vector<float*> pointers;
    for (memory::Block& state : executor_->at(u).states) pointers.push_back(state.as<float>());
    state_pointers_.push_back(std::move(pointers));
  }
}

// ---- Hooks

// The scheduler knows units by number; an error says the name.
std::span<const Op> Core::ask(Hook hook, int subject) {
  try {
    return scheduler_->on(hook, subject);
  } catch (const Error& error) {
    if (error.where().empty() || subject < 0 || subject >= model_.unit_count()) throw;
    throw Error(error.code(), error.message(), fmt::format("unit \"{}\"", model_.name({subject})), error.remedy());
  }
}

View Core::begin_use(Hook hook, Unit unit) {
  if (hook == Hook::before_backward && ++backward_uses_ == 1) executor_->meter().set_backward(true);
  run(hook, unit.index, ask(hook, unit.index));
  UnitUse& use = uses_[static_cast<std::size_t>(unit.index)];
  use.open.push_back(++uses_begun_);
  View view;
  view.use_ = &use;
  view.number_ = uses_begun_;
  view.backward_ = hook == Hook::before_backward;
  if (!view.backward_ || use.spec->needs_parameters_in_backward) view.parameters_ = executor_->whole(unit.index);
  if (view.backward_) view.gradients_ = executor_->gradient(unit.index);
  return view;
}

void Core::end_use(Hook hook, Unit unit) {
  run(hook, unit.index, ask(hook, unit.index));
  uses_[static_cast<std::size_t>(unit.index)].open.pop_back();
  if (hook == Hook::after_backward && --backward_uses_ == 0) executor_->meter().set_backward(false);
}

void Core::hook(Hook hook, int subject) {
  run(hook, schedule::about_unit(hook) ? subject : -1, ask(hook, subject));
}

void Core::run(Hook hook, int unit, std::span<const Op> ops) {
  check_usable();
  if (together(hook)) rank_.communicator().check();
  pool_.ledger().set_moment({.hook = static_cast<int>(hook), .unit = unit, .microbatch = scheduler_->micro_batch()});
  for (const Op& op : ops)
    if (op.kind != OpKind::update) executor_->run(op);
}

// Called where an exception ends a step, a pass or a read, by whoever catches it: the other ranks wait for this one and
// must learn why. First of all that: a collective of this rank's own that is under way ends only by it, or when every
// rank has come.
void Core::abandon() noexcept {
  const std::string why = failure_text(std::current_exception());
  if (scheduler_->updated()) ++steps_;  // only its report is lost: the update, skip or carry is done on every rank
  if (broken_ != nullptr)
    rank_.communicator().fail(why);
  else if (!rank_.interrupted_)
    rank_.communicator().interrupt(why);
  rank_.interrupted_ = true;
  looking_ = false;
  stream_->restart();
  scheduler_->on(Hook::abandon);
  executor_->give_back();
  for (UnitUse& use : uses_) use.open.clear();
  backward_uses_ = 0;
  executor_->meter().set_backward(false);
}

// Before whatever all ranks do together: after an interruption they meet first.
void Core::ready() {
  check_usable();
  check_not_looking();
  rank_.ready();
}

void Core::check_not_looking() const {
  if (looking_)
    throw Error(ErrorCode::model, "the runtime is asked for something inside of Runtime::whole", "",
                "call it after whole() has returned");
}

void Core::check_usable() const {
  if (broken_ == nullptr) return;
  throw Error(ErrorCode::plan, fmt::format("this runtime failed while {}", broken_), "",
              "end the run; what it had learnt since is lost");
}

// Ends what all ranks do together: in a meeting of all of them, which ends for all or for none.
void Core::meet() {
  executor_->meet();
  if (executor_->mesh().shards() > 1 && executor_->mesh().replicas() > 1) rank_.communicator().barrier(kNoUnit);
}

void Core::begin_evaluation() {
  ready();
  hook(Hook::begin_evaluation);
}

void Core::end_evaluation() {
  hook(Hook::end_evaluation);
  meet();
  ++evaluations_;
}

// ---- Parameters outside of hooks

void Core::fill(const Fill& fill) {
  between_steps([&] {
    hook(Hook::release);  // what an evaluation left whole would be stale
    for (int u = 0; u < executor_->unit_count(); ++u) {
      UnitMemory& unit = executor_->at(u);
      float* values = unit.shard.write();
      for (const model::Fragment& fragment : unit.fragments)
        fill(model_.spec({u}).parameters[static_cast<std::size_t>(fragment.parameter)].name, fragment.offset,
             std::span(values + fragment.shard_offset, static_cast<std::size_t>(fragment.length)));
    }
  });
}

std::vector<float> Core::read(std::string_view parameter) {
  const Model::Place place = model_.find_parameter(parameter);
  return between_steps([&] {
    hook(Hook::before_read, place.unit.index);
    const model::Layout& layout = executor_->at(place.unit.index).layout;
    const float* values = executor_->master(place.unit.index) + layout.offset(place.index);
    std::vector<float> copy(values, values + layout.elements(place.index));
    meet();
    hook(Hook::after_read, place.unit.index);
    return copy;
  });
}

void Core::whole(Unit unit, const std::function<void(const Values&)>& look) {
  between_steps([&] {
    hook(Hook::before_read, unit.index);
    look_and_write(unit, look);
  });
}

void Core::look_and_write(Unit unit, const std::function<void(const Values&)>& look) {
  UnitMemory& memory = executor_->at(unit.index);
  UnitUse& use = uses_[static_cast<std::size_t>(unit.index)];
  // In a shard group of one the values are the shard itself, which must not change before all ranks agree.
  const int64_t bytes = memory.layout.whole_elements() * bytes_of(Dtype::fp32);
  memory::Block copy;
  if (memory.layout.shards() == 1) {
    copy = pool_.allocate(bytes, MemoryCategory::whole_parameters);
    if (bytes > 0) std::memcpy(copy.data(), memory.shard.values(), static_cast<std::size_t>(bytes));
  }
  Values values;
  values.use_ = &use;
  values.number_ = ++uses_begun_;
  values.values_ = copy ? copy.as<float>() : executor_->master(unit.index);
  const uint64_t before = fingerprint(unit.index, values.values_);
  use.open.push_back(values.number_);
  looking_ = true;
  look(values);
  if (!std::exchange(looking_, false))
    throw Error(ErrorCode::model, "the runtime was abandoned inside of Runtime::whole", "",
                "catch no failure inside of it");
  use.open.pop_back();
  const uint64_t after = fingerprint(unit.index, values.values_);
  std::vector<uint64_t> all(static_cast<std::size_t>(rank_.count()));
  rank_.communicator().exchange(after, std::span<uint64_t>(all), kNoUnit);
  const auto other = std::find_if(all.begin(), all.end(), [&](uint64_t each) { return each != all[0]; });
  const bool changed = after != before || other != all.end();
  if (changed && other == all.end()) write_back(unit.index, values.values_);
  hook(Hook::after_read, unit.index);
  if (changed) hook(Hook::release);  // no copy of the old values stays
  if (other != all.end())
    throw Error(ErrorCode::model,
                fmt::format("rank {} left other values in unit \"{}\" than rank 0", other - all.begin(),
                            model_.name(unit)),
                "", "write the same values on every rank; nothing has been changed");
}

// Of the parameters' bits; padding is not the program's.
uint64_t Core::fingerprint(int unit, const float* values) const {
  const model::Layout& layout = executor_->at(unit).layout;
  base::Fingerprint fingerprint;
  for (int p = 0; p < layout.parameter_count(); ++p)
    for (int64_t i = 0; i < layout.elements(p); ++i) {
      uint32_t bits = 0;
      std::memcpy(&bits, values + layout.offset(p) + i, sizeof bits);
      fingerprint.add(bits);
    }
  return fingerprint.value();
}

void Core::write_back(int unit, const float* values) {
  UnitMemory& memory = executor_->at(unit);
  float* shard = memory.shard.write();
  for (const model::Fragment& part : memory.fragments)
    std::copy_n(values + memory.layout.offset(part.parameter) + part.offset, part.length, shard + part.shard_offset);
}

}  // namespace reshard::engine
