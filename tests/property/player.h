#pragma once

// Plays a program (tests/schedule/random_program.h) on a runtime with the toy's kernels, and looks at every parameter
// in every hook: a copy that is stale, of another unit or not gathered yet is seen where it is read.

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "reshard/error.h"
#include "tests/engine/toy.h"
#include "tests/schedule/random_program.h"

namespace reshard::property {

using schedule::Hook;
using schedule::HookCall;
using schedule::HookCalls;

// Throws, so that launch ends every rank and the test has the text.
inline void require(bool holds, const std::string& text) {
  if (!holds) throw std::runtime_error(text);
}

enum class Style : uint8_t { bare, closures, mixed };  // before_forward and after_forward, or forward(unit, …)

class Player {
 public:
  // `values`: what every parameter holds while the calls run; null: not looked at. `another_fails`: some other rank's
  // calls end inside the step.
  Player(Runtime& runtime, const toy::Values* values, const HookCalls& calls, Style style, bool another_fails = false)
      : runtime_(runtime), values_(values), calls_(calls), style_(style), another_fails_(another_fails),
        runs_(static_cast<std::size_t>(runtime.job().train.microbatches)) {
    forget();
  }

  // Nothing when the calls end inside the step: it is abandoned then.
  std::optional<StepResult> step(bool in_one_call) {
    try {
      return in_one_call ? step_in_one_call() : step_in_stages();
    } catch (const Ended&) {
    } catch (const Error& error) {  // another rank came to the calls' end before this one
      if (error.code() != ErrorCode::rank_failed) throw;
      if (calls_.back().hook == Hook::end_step && !another_fails_) throw;
    }
    forget();
    runtime_.abandon();
    return std::nullopt;
  }

  void evaluate() {
    runtime_.evaluate([&] {
      ++at_;
      passes();
    });
  }

 private:
  struct Ended {};
  struct UnitRuns {
    int backwards = 0;
    std::vector<Buffer> saved;
  };
  struct MicroBatchRuns {
    std::vector<UnitRuns> units;
    double loss = 0;
  };

  std::size_t unit_count() const { return static_cast<std::size_t>(runtime_.model().unit_count()); }
  MicroBatchRuns& runs() { return runs_[static_cast<std::size_t>(micro_batch_)]; }
  UnitRuns& unit(int index) { return runs().units[static_cast<std::size_t>(index)]; }
  void forget() {
    for (MicroBatchRuns& runs : runs_) runs.units = std::vector<UnitRuns>(unit_count());
  }
  Hook hook() const {
    if (at_ == calls_.size()) throw Ended{};
    return calls_[at_].hook;
  }

  StepResult step_in_one_call() {
    ++at_;
    if (hook() == Hook::enter_micro_batch) return runtime_.step_in_flight([&] { return in_flight(); });
    return runtime_.step([&](MicroBatch at) { return micro_batch(at.index); });
  }

  // Pieces of micro-batches in any order.
  double in_flight() {
    while (hook() == Hook::enter_micro_batch) {
      micro_batch_ = calls_[at_++].unit;
      runtime_.enter_micro_batch(micro_batch_);
      passes();
    }
    double sum = 0;
    for (const MicroBatchRuns& runs : runs_) sum += runs.loss;
    forget();
    return sum;
  }

  StepResult step_in_stages() {
    ++at_;
    runtime_.begin_step();
    double loss = hook() == Hook::enter_micro_batch ? in_flight() : 0;
    for (int m = 0; hook() == Hook::begin_micro_batch; ++m) {
      runtime_.begin_micro_batch();
      loss += micro_batch(m);
    }
    if (hook() == Hook::reduce) runtime_.reduce();
    runtime_.update(runtime_.gradient_norm());
    return runtime_.end_step(loss);
  }

  double micro_batch(int index) {
    hook();
    ++at_;
    micro_batch_ = index;
    passes();
    hook();
    forget();
    return runs().loss;
  }

  void passes() {
    while (at_ < calls_.size() && (hook() == Hook::before_forward || hook() == Hook::before_backward)) pass();
  }

  // One before hook, what stands inside, and its after hook.
  void pass() {
    const bool closure = style_ == Style::closures || (style_ == Style::mixed && at_ % 3 != 0);
    const Unit unit{calls_[at_].unit};
    const bool forward = calls_[at_].hook == Hook::before_forward;
    ++at_;
    const auto inside = [&](const View& view) {
      begin(unit, view, forward);
      passes();
      hook();
      ++at_;
      if (!forward) end_backward(unit, view);
    };
    if (closure) return forward ? runtime_.forward(unit, inside) : runtime_.backward(unit, inside);
    inside(forward ? runtime_.before_forward(unit) : runtime_.before_backward(unit));
    forward ? runtime_.after_forward(unit) : runtime_.after_backward(unit);
  }

  void begin(Unit at, const View& view, bool forward) {
    look(at, view, forward);
    open_backwards_ += forward ? 0 : 1;
    if (!forward || open_backwards_ > 0 || micro_batch_ < 0) return;
    const UnitSpec& spec = runtime_.model().spec(at);
    for (std::size_t p = 0; p < spec.parameters.size(); ++p)
      runs().loss += toy::loss_term(toy::seen(view, static_cast<int>(p))[0], runtime_.rank().index());
    if (spec.saved_bytes > 0) unit(at.index).saved.push_back(runtime_.allocate(spec.saved_bytes));
  }

  void end_backward(Unit at, const View& view) {
    look(at, view, false);
    --open_backwards_;
    UnitRuns& me = unit(at.index);
    if (!me.saved.empty()) me.saved.pop_back();
    const UnitSpec& spec = runtime_.model().spec(at);
    const int run = me.backwards++;
    for (std::size_t p = 0; p < spec.parameters.size(); ++p) {
      if (!spec.parameters[p].trainable) continue;
      toy::add_contribution(
          view, static_cast<int>(p),
          [&](float value, int64_t i) {
            return toy::contribution(value, runtime_.steps_done(), runtime_.rank().index(), micro_batch_, run, i);
          },
          spec.needs_parameters_in_backward);
    }
  }

  void look(Unit at, const View& view, bool forward) const {
    const UnitSpec& spec = runtime_.model().spec(at);
    if (values_ == nullptr || (!forward && !spec.needs_parameters_in_backward)) return;
    const std::vector<Parameter>& parameters = spec.parameters;
    for (std::size_t p = 0; p < parameters.size(); ++p)
      require(std::ranges::equal(toy::seen(view, static_cast<int>(p)), values_->at(parameters[p].name), {}, {},
                                 [&](float value) { return toy::rounded(view.dtype(), value); }),
              fmt::format("hook {} of {} sees other values of parameter {} than it holds", at_, calls_.size(),
                          parameters[p].name));
  }

  Runtime& runtime_;
  const toy::Values* values_;
  const HookCalls& calls_;
  Style style_;
  bool another_fails_;
  std::vector<MicroBatchRuns> runs_;  // by micro-batch
  std::size_t at_ = 0;
  int micro_batch_ = -1, open_backwards_ = 0;
};

}  // namespace reshard::property
