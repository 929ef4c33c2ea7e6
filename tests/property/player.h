#pragma once

// Plays a program (tests/schedule/random_program.h) on a runtime with the toy's kernels, and looks at every parameter
// in every hook: a copy that is stale, of another unit or not gathered yet is seen where it is read.

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include <fmt/format.h>

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
  // `values`: what every parameter holds while the calls run; null: not looked at.
  Player(Runtime& runtime, const toy::Values* values, const HookCalls& calls, Style style)
      : runtime_(runtime), values_(values), calls_(calls), style_(style), units_(unit_count()) {}

  // Nothing when the calls end inside the step: it is abandoned then.
  std::optional<StepResult> step(bool in_one_call) {
    try {
      return in_one_call ? step_in_one_call() : step_in_stages();
    } catch (const Ended&) {
      forget();
      runtime_.abandon();
      return std::nullopt;
    }
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
    int backwards = 0;  // of this micro-batch
    std::vector<Buffer> saved;
  };

  std::size_t unit_count() const { return static_cast<std::size_t>(runtime_.model().unit_count()); }
  UnitRuns& unit(int index) { return units_[static_cast<std::size_t>(index)]; }
  void forget() {
    for (UnitRuns& unit : units_) unit = UnitRuns{};
  }
  Hook hook() const {
    if (at_ == calls_.size()) throw Ended{};
    return calls_[at_].hook;
  }

  StepResult step_in_one_call() {
    ++at_;
    return runtime_.step([&](MicroBatch at) { return micro_batch(at.index); });
  }

  StepResult step_in_stages() {
    ++at_;
    runtime_.begin_step();
    double loss = 0;
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
    loss_ = 0;
    passes();
    hook();
    forget();
    return loss_;
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
    look(at, view);
    open_backwards_ += forward ? 0 : 1;
    if (!forward || open_backwards_ > 0 || micro_batch_ < 0) return;
    const UnitSpec& spec = runtime_.model().spec(at);
    for (std::size_t p = 0; p < spec.parameters.size(); ++p)
      loss_ += toy::loss_term(view.parameter(static_cast<int>(p))[0], runtime_.rank().index());
    if (spec.saved_bytes > 0) unit(at.index).saved.push_back(runtime_.allocate(spec.saved_bytes));
  }

  void end_backward(Unit at, const View& view) {
    look(at, view);
    --open_backwards_;
    UnitRuns& me = unit(at.index);
    if (!me.saved.empty()) me.saved.pop_back();
    const UnitSpec& spec = runtime_.model().spec(at);
    const int run = me.backwards++;
    for (std::size_t p = 0; p < spec.parameters.size(); ++p) {
      if (!spec.parameters[p].trainable) continue;
      const auto values = view.parameter(static_cast<int>(p));
      const auto gradient = view.gradient(static_cast<int>(p));
      for (std::size_t i = 0; i < values.size(); ++i)
        gradient[i] += toy::contribution(values[i], runtime_.steps_done(), runtime_.rank().index(), micro_batch_, run,
                                         static_cast<int64_t>(i));
    }
  }

  void look(Unit at, const View& view) const {
    if (values_ == nullptr) return;
    const std::vector<Parameter>& parameters = runtime_.model().spec(at).parameters;
    for (std::size_t p = 0; p < parameters.size(); ++p)
      require(std::ranges::equal(view.parameter(static_cast<int>(p)), values_->at(parameters[p].name)),
              fmt::format("hook {} of {} sees other values of parameter {} than it holds", at_, calls_.size(),
                          parameters[p].name));
  }

  Runtime& runtime_;
  const toy::Values* values_;
  const HookCalls& calls_;
  Style style_;
  std::vector<UnitRuns> units_;
  std::size_t at_ = 0;
  int micro_batch_ = -1, open_backwards_ = 0;
  double loss_ = 0;
};

}  // namespace reshard::property
