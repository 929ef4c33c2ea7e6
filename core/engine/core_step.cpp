// The stages of a step. Up to the agreement before the update nothing that a later step reads has changed; after it no
// rank fails alone.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "base/math.h"
#include "engine/core.h"
#include "engine/optimizers.h"
#include "reshard/error.h"

namespace reshard::engine {

using schedule::Hook;
using schedule::Op;
using schedule::OpKind;

namespace {

constexpr comm::Tag kNorm{.unit_name = "gradient norm"};

std::string number_text(double value) {
  return fmt::format("{}", base::one_nan(value));
}

}  // namespace

void Core::begin_step() {
  ready();
  hook(Hook::begin_step);
  step_ = StepResult{};
  step_.step = steps_;
  agreed_ = false;
  tokens_ = 0;
  divisor_ = plain_divisor_;
  executor_->set_divisor(divisor_);
  step_began_ns_ = now_ns();
  step_exposed_ns_ = executor_->meter().exposed_ns();
  if (strategy_listens()) units_began_ = executor_->meter().by_unit();
}

MicroBatch Core::micro_batch() const {
  return {steps_, scheduler_->micro_batch(), job_.train.microbatches};
}

void Core::count_tokens(int64_t tokens) {
  const auto refuse = [this](const std::string& what, const char* remedy) {
    throw Error(ErrorCode::model, what, job_.where("train.divisor"), remedy);
  };
  if (!by_tokens_)
    refuse(fmt::format("tokens are counted and the divisor is \"{}\"", job_.train.divisor),
           "use divisor = \"tokens\", or count none");
  if (!scheduler_->reducing())
    refuse("tokens are counted outside of a step, or after its gradients are reduced",
           "call Runtime::count_tokens in a micro-batch");
  const int64_t most = std::numeric_limits<int64_t>::max() / rank_.count();  // the sum over the ranks fits, too
  if (tokens < 0 || tokens > most - tokens_)
    refuse(fmt::format("{} tokens are counted after {} in step {}", tokens, tokens_, steps_),
           "count the tokens of this micro-batch on this rank");
  tokens_ += tokens;
}

// Ranks that dropped what others kept would add up other gradients.
void Core::check_dropped(int rank, int64_t dropped, int64_t first) const {
  if (dropped != first)
    throw Error(ErrorCode::model,
                fmt::format("rank {} has dropped carried gradients {} times, rank 0 {} times", rank, dropped, first), "",
                "every rank must call Runtime::zero_gradients where the others do");
}

void Core::reduce() {
  if (by_tokens_ && scheduler_->reducing()) {
    executor_->meet();
    std::vector<int64_t> all(static_cast<std::size_t>(rank_.count()));
    rank_.communicator().exchange(tokens_, std::span<int64_t>(all), kNoUnit);
    int64_t sum = 0;
    for (const int64_t each : all) sum += each;
    if (sum <= 0)
      throw Error(ErrorCode::model, fmt::format("no rank has counted a token in step {}", steps_),
                  job_.where("train.divisor"),
                  "call Runtime::count_tokens in every micro-batch, or use divisor = \"ranks\"");
    divisor_ = static_cast<double>(sum);
    executor_->set_divisor(divisor_);
  }
  hook(Hook::reduce);
}

NormPart Core::measure_own_gradient() {
  NormPart mine;
  for (int u = 0; u < executor_->unit_count(); ++u) {
    const float* gradient = executor_->reduced_gradient(u);
    if (gradient == nullptr) continue;
    for (const model::Fragment& part : executor_->at(u).fragments) {
      if (!model_.spec({u}).parameters[static_cast<std::size_t>(part.parameter)].trainable) continue;
      const std::span values(gradient + part.shard_offset, static_cast<std::size_t>(part.length));
      if (by_squares_)
        mine.squares.add(values);
      else
        mine.largest = optim::larger(mine.largest, optim::largest_magnitude(values));
    }
  }
  return mine;
}

double Core::norm_of(std::span<const NormPart> parts) const {
  NormPart sum;
  for (const NormPart& part : parts) {
    sum.squares.merge(part.squares);
    sum.largest = optim::larger(sum.largest, part.largest);
  }
  return by_squares_ ? sum.squares.norm() : sum.largest;
}

double Core::measure_gradient() {
  reduce();  // without effect where the program has called it
  comm::Communicator& group = executor_->shard_group();  // replicas hold the same gradients
  std::vector<NormPart> all(static_cast<std::size_t>(group.size()));
  group.exchange(measure_own_gradient(), std::span<NormPart>(all), kNorm);
  return norm_of(all);
}

double Core::gradient_norm() {
  const double norm = measure_gradient();
  if (!std::isfinite(norm) && job_.train.stop_after_skipped == 1)
    check_skips(norm_text(norm));
  return norm;
}

std::string Core::norm_text(double norm) const {
  return fmt::format("the gradient norm is {} at step {}", number_text(norm), steps_);
}

// One more step would be skipped: ends the run where that is one too many.
void Core::check_skips(const std::string& why) {
  const int64_t most = job_.train.stop_after_skipped;
  if (most == 0 || skipped_in_a_row_ + 1 < most) return;
  const std::string before = most == 1   ? ""
                             : most == 2 ? ", the step before it was skipped"
                                         : fmt::format(", the {} steps before it were skipped", most - 1);
  throw Error(ErrorCode::numeric, why + before, "", "lower [optimizer] lr, set clip_norm, or look at the data of that step");
}

Told Core::told(double loss_sum) const {
  return {loss_sum, stop_.load(std::memory_order_relaxed) ? 1 : 0, dropped_};
}

// Exchanges losses and stop requests. Says which loss is not finite, if one is; the same on every rank.
std::string Core::agree(double loss_sum) {
  std::vector<Told> all(static_cast<std::size_t>(rank_.count()));
  rank_.communicator().exchange(told(loss_sum), std::span<Told>(all), kNoUnit);
  return hear(all);
}

std::string Core::hear(std::span<const Told> all) {
  double sum = 0;
  std::string why;
  for (std::size_t r = 0; r < all.size(); ++r) {
    check_dropped(static_cast<int>(r), all[r].dropped, all[0].dropped);
    if (!std::isfinite(all[r].loss_sum) && why.empty())
      why = fmt::format("the loss is {} on rank {} at step {}", number_text(all[r].loss_sum), r, steps_);
    sum += all[r].loss_sum;
    step_.stop_requested = step_.stop_requested || all[r].stop != 0;
  }
  step_.loss = base::one_nan(sum / divisor_);
  agreed_ = true;
  return why;
}

void Core::finish(double loss_sum) {
  const double norm = measure_gradient();
  executor_->meet_replicas();
  std::string why = agree(loss_sum);
  if (why.empty() && !std::isfinite(norm)) why = norm_text(norm);
  step_.gradient_norm = base::one_nan(norm);
  if (why.empty()) return apply_update(norm);
  check_skips(why);
  drop_gradients();
}

// For a program that drives the stages itself: nobody changes a parameter before everybody has come here, to end the
// step in the same way and by the same norm. The last thing that can fail at one rank because of another.
std::vector<Ending> Core::agree_to_end(Hook how, double norm, std::optional<double> loss_sum, const NormPart& part) {
  executor_->meet();
  const Ending mine{static_cast<int64_t>(how), base::one_nan(norm), loss_sum ? 1 : 0, told(loss_sum.value_or(0)), part};
  std::vector<Ending> all(static_cast<std::size_t>(rank_.count()));
  rank_.communicator().exchange(mine, std::span<Ending>(all), kNoUnit);
  for (std::size_t r = 1; r < all.size(); ++r) {
    check_dropped(static_cast<int>(r), all[r].told.dropped, all[0].told.dropped);
    if (all[r].how != all[0].how)
      throw Error(ErrorCode::model,
                  fmt::format("rank {} ends step {} by {}, rank 0 by {}", r, steps_,
                              name(static_cast<Hook>(all[r].how)), name(static_cast<Hook>(all[0].how))),
                  "", "every rank must update, skip or carry as the others do");
    if (std::memcmp(&all[r].norm, &all[0].norm, sizeof(double)) != 0)
      throw Error(ErrorCode::model,
                  fmt::format("rank {} updates by the gradient norm {} in step {}, rank 0 by {}", r,
                              number_text(all[r].norm), steps_, number_text(all[0].norm)),
                  "", "give update() what gradient_norm() returned, or the same number on every rank");
    if (all[r].tells != all[0].tells)
      throw Error(ErrorCode::model,
                  fmt::format("rank {} gives {} its loss in step {}, rank {} does not", all[r].tells != 0 ? r : 0,
                              name(how), steps_, all[r].tells != 0 ? 0 : r),
                  "", "give it on every rank or on none");
  }
  if (norm < 0)
    throw Error(ErrorCode::model,
                fmt::format("the gradient norm of {} in step {} is below 0", number_text(norm), steps_), "",
                "give update() what gradient_norm() returned; [optimizer] clip_norm = 0 clips nothing");
  return all;
}

// Why all ranks skip this step, if they do.
std::string Core::why_not(const std::vector<Ending>& all, double norm) {
  std::string why;
  if (all[0].tells != 0) {
    std::vector<Told> told;
    for (const Ending& each : all) told.push_back(each.told);
    why = hear(told);
  }
  if (why.empty() && !std::isfinite(norm)) why = norm_text(norm);
  return why;
}

void Core::update(double norm, std::optional<double> loss_sum) {
  reduce();
  const std::string why = why_not(agree_to_end(Hook::update, norm, loss_sum), norm);
  step_.gradient_norm = base::one_nan(norm);
  if (why.empty()) return apply_update(norm);
  check_skips(why);
  drop_gradients();
}

void Core::skip() {
  reduce();
  agree_to_end(Hook::skip, 0, {});
  hook(Hook::skip);
  step_.skipped_by_program = true;
  ++skipped_by_program_;
}

void Core::drop_gradients() {
  hook(Hook::skip);
  step_.skipped = true;
  ++skipped_;
  ++skipped_in_a_row_;
}

// A gradient that is not finite is not carried on: no later step would get rid of it.
void Core::carry(std::optional<double> loss_sum) {
  reduce();
  std::vector<NormPart> parts;  // of this rank's shard group; what it gives is the same in every one
  const std::vector<Ending> all = agree_to_end(Hook::carry, 0, loss_sum, measure_own_gradient());
  for (const int rank : executor_->mesh().shard_group(rank_.index()))
    parts.push_back(all[static_cast<std::size_t>(rank)].part);
  const double norm = norm_of(parts);
  const std::string why = why_not(all, norm);
  step_.gradient_norm = base::one_nan(norm);
  if (!why.empty()) {
    check_skips(why);
    return drop_gradients();
  }
  const std::span<const Op> ops = scheduler_->on(Hook::carry);
  pool_.ledger().set_moment({.hook = static_cast<int>(Hook::carry), .unit = -1, .microbatch = scheduler_->micro_batch()});
  broken_ = "it carried gradients";  // until it is done: memory may end on one rank alone, after all have agreed
  for (const Op& op : ops) executor_->run(op);
  broken_ = nullptr;
  skipped_in_a_row_ = 0;
}

void Core::apply_update(double norm) {
  const Job::Optimizer& settings = job_.optimizer;
  StepInfo info;
  info.step = updates_ + 1;
  info.lr = settings.lr * learning_rate_multiplier(job_, steps_);
  info.gradient_scale = optim::clip_factor(norm, settings.clip_norm);
  step_.lr = info.lr;
  const std::span<const Op> ops = scheduler_->on(Hook::update);
  pool_.ledger().set_moment(
      {.hook = static_cast<int>(Hook::update), .unit = -1, .microbatch = scheduler_->micro_batch()});
  broken_ = "it updated parameters";  // until it is done: some would be new, others old
  for (const Op& op : ops) {
    if (op.kind == OpKind::update)
      optimize(info);
    else
      executor_->run(op);
  }
  broken_ = nullptr;
  ++updates_;
  skipped_in_a_row_ = 0;
}

void Core::optimize(const StepInfo& info) {
  int first_parameter = 0;  // the unit's, in the model
  for (int u = 0; u < executor_->unit_count(); ++u) {
    UnitMemory& unit = executor_->at(u);
    const auto& parameters = model_.spec({u}).parameters;
    const int first = std::exchange(first_parameter, first_parameter + static_cast<int>(parameters.size()));
    const float* gradient = executor_->reduced_gradient(u);
    if (gradient == nullptr) continue;  // the unit took no part in this step
    const std::vector<float*>& states = state_pointers_[static_cast<std::size_t>(u)];
    float* values = unit.shard.write();
    float* at_fragment[kMostStates];
    for (const model::Fragment& part : unit.fragments) {
      const Parameter& parameter = parameters[static_cast<std::size_t>(part.parameter)];
      if (!parameter.trainable) continue;
      for (std::size_t s = 0; s < states.size(); ++s) at_fragment[s] = states[s] + part.shard_offset;
      Fragment fragment;
      fragment.parameter = first + part.parameter;
      fragment.name = parameter.name;
      fragment.shape = parameter.shape;
      fragment.group = parameter_groups_[static_cast<std::size_t>(fragment.parameter)];
      fragment.offset = part.offset;
      fragment.length = part.length;
      fragment.values = values + part.shard_offset;
      fragment.gradient = gradient + part.shard_offset;
      fragment.state = {at_fragment, states.size()};
      optimizer_->update(fragment, info);
    }
  }
}

StepResult Core::end_step(std::optional<double> loss_sum) {
  if (!agreed_) {  // the program's stages have updated or skipped before the losses are known
    if (!loss_sum)
      throw Error(ErrorCode::model, fmt::format("step {} ends without its loss", steps_), "",
                  "give the sum of this rank's losses to update() or to end_step()");
    const std::string why = agree(*loss_sum);
    if (!why.empty() && !step_.skipped && !step_.skipped_by_program && job_.train.stop_after_skipped == 1) check_skips(why);
  }
  hook(Hook::end_step);
  ++steps_;
  const int64_t now = now_ns();
  step_.seconds = static_cast<double>(now - step_began_ns_) * 1e-9;
  step_.seconds_exposed = static_cast<double>(executor_->meter().exposed_ns() - step_exposed_ns_) * 1e-9;
  if (strategy_listens() && !scheduler_->carries()) tell_strategy();
  ++steps_of_plan_;
  return step_;
}

}  // namespace reshard::engine
