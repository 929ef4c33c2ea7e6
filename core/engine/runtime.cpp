#include "reshard/runtime.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "comm/communicator.h"
#include "engine/core.h"
#include "reshard/error.h"
#include "model/layout.h"

namespace reshard {

using schedule::Hook;

// ---- Rank

Rank::Rank(comm::Communicator& all) : all_(all) {}
int Rank::index() const {
  return all_.rank();
}
int Rank::count() const {
  return all_.size();
}
// After an interruption all ranks meet before they do anything together.
void Rank::ready() {
  if (!interrupted_) return;
  all_.recover();
  interrupted_ = false;
}

void Rank::barrier() {
  ready();
  all_.barrier({});
}

std::vector<double> Rank::exchange(double value) {
  ready();
  std::vector<double> all(static_cast<std::size_t>(count()));
  all_.exchange(value, std::span<double>(all), {});
  return all;
}

// ---- View

const engine::UnitUse& View::use() const {
  RESHARD_CHECK(use_ != nullptr, "a view comes from a hook");
  return *use_;
}

std::size_t View::elements(int index) const {
  return static_cast<std::size_t>(use().memory->layout.elements(index));
}

Dtype View::dtype() const {
  return use().memory->dtype;
}

namespace {

[[noreturn]] void refuse(const engine::UnitUse& use, int index, const char* why, const char* remedy) {
  throw Error(ErrorCode::model,
              fmt::format("parameter \"{}\" of unit \"{}\" {}",
                          use.spec->parameters[static_cast<std::size_t>(index)].name, use.spec->name, why),
              "", remedy);
}

void require_index(const engine::UnitUse& use, int index) {
  RESHARD_CHECK(index >= 0 && index < static_cast<int>(use.spec->parameters.size()), "a unit has a parameter of that index");
}

void* place(const engine::UnitUse& use, void* memory, int index) {
  return static_cast<std::byte*>(memory) + use.memory->layout.offset(index) * bytes_of(use.memory->dtype);
}

}  // namespace

const void* View::parameter_memory(int index) const {
  const engine::UnitUse& mine = use();
  require_index(mine, index);
  if (std::find(mine.open.begin(), mine.open.end(), number_) == mine.open.end())
    refuse(mine, index, "is read outside of its unit's hooks",
           "read it between before_forward and after_forward, or backward's, or by Runtime::read or Runtime::whole");
  if (backward_ && !mine.spec->needs_parameters_in_backward)
    refuse(mine, index, "is read in backward, which its unit says it does without",
           "set UnitSpec::needs_parameters_in_backward");
  return place(mine, parameters_, index);
}

void* View::gradient_memory(int index) const {
  const engine::UnitUse& mine = use();
  require_index(mine, index);
  if (std::find(mine.open.begin(), mine.open.end(), number_) == mine.open.end())
    refuse(mine, index, "is given a gradient outside of its unit's hooks",
           "add to it between before_backward and after_backward");
  if (!backward_) refuse(mine, index, "has no gradient in a forward hook", "add to it in backward");
  if (!mine.spec->parameters[static_cast<std::size_t>(index)].trainable)
    refuse(mine, index, "is frozen and has no gradient", "add nothing to it");
  return place(mine, gradients_, index);
}

void View::require_dtype(Dtype wanted, int index) const {
  require_index(use(), index);
  if (dtype() == wanted) return;
  refuse(use(), index, wanted == Dtype::fp32 ? "is in bf16 and is asked for in fp32" : "is in fp32 and is asked for in bf16",
         wanted == Dtype::fp32 ? "ask for parameter_bf16 and gradient_bf16, or set [precision] param_dtype = \"fp32\""
                               : "ask for parameter and gradient, or set [precision] param_dtype = \"bf16\"");
}

std::span<const float> View::parameter(int index) const {
  require_dtype(Dtype::fp32, index);
  return {static_cast<const float*>(parameter_memory(index)), elements(index)};
}

std::span<const Bf16> View::parameter_bf16(int index) const {
  require_dtype(Dtype::bf16, index);
  return {static_cast<const Bf16*>(parameter_memory(index)), elements(index)};
}

std::span<float> View::gradient(int index) const {
  require_dtype(Dtype::fp32, index);
  return {static_cast<float*>(gradient_memory(index)), elements(index)};
}

std::span<Bf16> View::gradient_bf16(int index) const {
  require_dtype(Dtype::bf16, index);
  return {static_cast<Bf16*>(gradient_memory(index)), elements(index)};
}

std::span<float> Values::parameter(int index) const {
  RESHARD_CHECK(use_ != nullptr, "values come from Runtime::whole");
  require_index(*use_, index);
  if (std::find(use_->open.begin(), use_->open.end(), number_) == use_->open.end())
    refuse(*use_, index, "is used after Runtime::whole has returned", "use it inside the call only");
  const model::Layout& layout = use_->memory->layout;
  return {values_ + layout.offset(index), static_cast<std::size_t>(layout.elements(index))};
}

// ---- Runtime: everything but the control flow of a step is the core's

Runtime::Runtime(const Job& job, const Model& model, Rank& rank, std::unique_ptr<Optimizer> optimizer)
    : core_(std::make_unique<engine::Core>(job, model, rank, std::move(optimizer))) {}

Runtime::~Runtime() = default;

void Runtime::fill(const Fill& fill) {
  core_->fill(fill);
}
std::vector<float> Runtime::read(std::string_view parameter) {
  return core_->read(parameter);
}

StepResult Runtime::step(const std::function<double(MicroBatch)>& micro_batch) {
  try {
    begin_step();
    double loss_sum = 0;
    for (int m = 0; m < core_->job().train.microbatches; ++m) {
      begin_micro_batch();
      loss_sum += micro_batch(core_->micro_batch());
    }
    core_->finish(loss_sum);
    return end_step(loss_sum);
  } catch (...) {
    core_->abandon();
    throw;
  }
}

StepResult Runtime::step_in_flight(const std::function<double()>& schedule) {
  try {
    begin_step();
    const double loss_sum = schedule();
    core_->finish(loss_sum);
    return end_step(loss_sum);
  } catch (...) {
    core_->abandon();
    throw;
  }
}

void Runtime::evaluate(const std::function<void()>& pass) {
  try {
    core_->begin_evaluation();
    pass();
    core_->end_evaluation();
  } catch (...) {
    core_->abandon();
    throw;
  }
}

View Runtime::before_forward(Unit unit) {
  return core_->begin_use(Hook::before_forward, unit);
}
void Runtime::after_forward(Unit unit) {
  core_->end_use(Hook::after_forward, unit);
}
View Runtime::before_backward(Unit unit) {
  return core_->begin_use(Hook::before_backward, unit);
}
void Runtime::after_backward(Unit unit) {
  core_->end_use(Hook::after_backward, unit);
}

void Runtime::begin_step() {
  core_->begin_step();
}
void Runtime::begin_micro_batch() {
  core_->begin_micro_batch();
}
void Runtime::enter_micro_batch(int index) {
  core_->hook(Hook::enter_micro_batch, index);
}
void Runtime::count_tokens(int64_t tokens) {
  core_->count_tokens(tokens);
}
void Runtime::skip() {
  core_->skip();
}
void Runtime::carry() {
  core_->carry({});
}
void Runtime::carry(double loss_sum) {
  core_->carry(loss_sum);
}
void Runtime::zero_gradients() {
  core_->zero_gradients();
}
void Runtime::whole(Unit unit, const std::function<void(const Values&)>& look) {
  core_->whole(unit, look);
}
void Runtime::reduce() {
  core_->reduce();
}
double Runtime::gradient_norm() {
  return core_->gradient_norm();
}
void Runtime::update(double gradient_norm) {
  core_->update(gradient_norm, {});
}
void Runtime::update(double gradient_norm, double loss_sum) {
  core_->update(gradient_norm, loss_sum);
}
StepResult Runtime::end_step() {
  return core_->end_step({});
}
StepResult Runtime::end_step(double loss_sum) {
  return core_->end_step(loss_sum);
}

SwitchResult Runtime::switch_strategy(const StrategyChoice& choice) {
  return core_->switch_strategy(choice);
}
Buffer Runtime::allocate(int64_t bytes) {
  return core_->allocate(bytes);
}
void Runtime::request_stop() {
  core_->request_stop();
}

int64_t Runtime::steps_done() const {
  return core_->steps_done();
}
Rank& Runtime::rank() {
  return core_->rank();
}
const Model& Runtime::model() const {
  return core_->model();
}
const Job& Runtime::job() const {
  return core_->job();
}
Report Runtime::report() const {
  return core_->report();
}
void Runtime::reset_peak() {
  core_->reset_peak();
}

void Runtime::abandon() noexcept {
  core_->abandon();
}

}  // namespace reshard
