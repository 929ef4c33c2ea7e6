#include "reshard/runtime.h"

#include <utility>

#include "base/check.h"
#include "comm/communicator.h"
#include "engine/core.h"
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
void Rank::barrier() {
  all_.barrier({});
}

std::vector<double> Rank::exchange(double value) {
  std::vector<double> all(static_cast<std::size_t>(count()));
  all_.exchange(value, std::span<double>(all), {});
  return all;
}

// ---- View

float* View::at(float* base, int index) const {
  RESHARD_CHECK(base != nullptr, "gradients are there in a backward hook of a trainable unit only");
  return base + static_cast<const model::Layout*>(layout_)->offset(index);
}

std::size_t View::elements(int index) const {
  return static_cast<std::size_t>(static_cast<const model::Layout*>(layout_)->elements(index));
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
    reduce();
    core_->agree(loss_sum);
    update(gradient_norm());
    return end_step(loss_sum);
  } catch (...) {
    core_->abandon();
    throw;
  }
}

void Runtime::evaluate(const std::function<void()>& pass) {
  try {
    core_->hook(Hook::begin_evaluation);
    pass();
    core_->hook(Hook::end_evaluation);
    core_->count_evaluation();
  } catch (...) {
    core_->abandon();
    throw;
  }
}

View Runtime::before_forward(Unit unit) {
  return core_->hook(Hook::before_forward, unit, false);
}
void Runtime::after_forward(Unit unit) {
  core_->hook(Hook::after_forward, unit);
}
View Runtime::before_backward(Unit unit) {
  return core_->hook(Hook::before_backward, unit, true);
}
void Runtime::after_backward(Unit unit) {
  core_->hook(Hook::after_backward, unit);
}

void Runtime::begin_step() {
  core_->begin_step();
}
void Runtime::begin_micro_batch() {
  core_->begin_micro_batch();
}
void Runtime::reduce() {
  core_->reduce();
}
double Runtime::gradient_norm() {
  return core_->gradient_norm();
}
void Runtime::update(double gradient_norm) {
  core_->update(gradient_norm);
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
