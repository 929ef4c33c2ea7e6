#pragma once

// What the engine's tests by behaviour share: every way to run (strategy, ranks, overlap), and how a body is run in it.

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/fingerprint.h"
#include "engine/planning.h"
#include "reshard/error.h"
#include "tests/engine/toy.h"
#include "tests/shipped.h"

namespace reshard::toy {

struct Way {
  std::string strategy;
  int ranks = 1;
  bool overlap = false;

  std::string text() const { return fmt::format("{} on {}{}", strategy, ranks, overlap ? ", overlap" : ""); }
};

// Every strategy that ships on every number of ranks, half of the ways with overlap: which half, `turn` says, so that
// two turns that differ by one are all of them. Where there are four ranks, one strategy runs on eight as well.
inline std::vector<Way> ways(std::initializer_list<int> ranks, uint64_t turn) {
  std::vector<Way> all;
  uint64_t s = 0;
  for (const char* strategy : tests::kShipped) {
    uint64_t r = ranks.size() == 1 ? static_cast<uint64_t>(*ranks.begin()) : 0;
    for (const int count : ranks) all.push_back({strategy, count, (turn + s + r++) % 2 == 1});
    if (turn % std::size(tests::kShipped) == s++ && std::ranges::find(ranks, 4) != ranks.end() && ranks.size() > 1)
      all.push_back({strategy, 8, turn / 2 % 2 == 1});
  }
  return all;
}

// Calls fn(way) for the ways of the running test: its name is its turn.
template <typename Fn>
void for_each_way(std::initializer_list<int> ranks, const Fn& fn) {
  base::Fingerprint turn;
  turn.add(testing::UnitTest::GetInstance()->current_test_info()->name());
  for (const Way& way : ways(ranks, turn.value())) fn(way);
}

inline Job job(const Way& way, int microbatches = 1) {
  return job(way.ranks, way.strategy, microbatches, way.overlap);
}

// The job with a budget for a strategy that spends one: half of what keeping every unit costs.
inline Job with_budget(Job job, const Model& model, int optimizer_states) {
  if (!tests::needs_budget(std::filesystem::path(job.strategy.plugin).stem().string()) || job.memory.budget > 0)
    return job;
  const auto peak = [&](const char* strategy, const OptionValues& options) {
    return engine::plan_strategy(job, model, {tests::shipped(strategy), options, "test"}, optimizer_states).peak.total();
  };
  const int64_t least = peak("zero3", {});
  job.memory.budget = (least + peak("zero2", {{"between_microbatches", {std::string("free"), "test"}}})) / 2;
  return job;
}

using Body = std::function<void(Runtime&)>;
using MakeOptimizer = std::function<std::unique_ptr<Optimizer>()>;

inline void run(const Job& asked, const Model& model, const Body& body, const MakeOptimizer& optimizer = {}) {
  const int states =
      optimizer ? static_cast<int>(optimizer()->state_names().size()) : engine::optimizer_states(asked);
  const Job job = with_budget(asked, model, states);
  launch(job, [&](Rank& rank) {
    Runtime runtime(job, model, rank, optimizer ? optimizer() : nullptr);
    fill(runtime);
    body(runtime);
  });
}

// Rank 0's parameters after the body.
inline Values values_after(const Job& job, const Model& model, const Body& body, const MakeOptimizer& optimizer = {}) {
  Values values;
  run(
      job, model,
      [&](Runtime& runtime) {
        body(runtime);
        Values mine = read_all(runtime);
        if (runtime.rank().first()) values = std::move(mine);
      },
      optimizer);
  return values;
}

inline std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

// Bytes by category that are live now.
inline std::array<int64_t, kMemoryCategories> live(Runtime& runtime) {
  runtime.reset_peak();
  return runtime.report().measured.bytes;
}

inline int64_t live(Runtime& runtime, MemoryCategory category) {
  return live(runtime)[static_cast<std::size_t>(category)];
}

// Units beside and inside one another, an odd size, a single element, one parameter in bf16 where `bf16`.
inline Model tree(bool bf16 = false) {
  Model model({.name = "root", .parameters = {{"a", {100}}, {"scalar", {}}}});
  const Unit outer = model.add({.name = "h.0", .parameters = {{"w0", {9, 11}}, {"b0", {11}, false}}});
  UnitSpec inner{.name = "h.0.x", .parameters = {{"x", {127}}}};
  if (bf16) inner.param_dtype = Dtype::bf16;
  model.add(inner, outer);
  model.add({.name = "h.1", .parameters = {{"w1", {200}}}});
  return model;
}

// A step whose contributions follow from `number` alone, not from how many steps came before it.
inline StepResult step(Runtime& runtime, int64_t number, const Pass::Place& place = {}, bool bare = false) {
  return runtime.step([&](MicroBatch at) { return Pass(runtime, {number, at.index, at.count}, place, bare)(); });
}

// Makes gradients visible: an update sets the values to what it is given as their gradient.
class ValuesBecomeGradients final : public Optimizer {
 public:
  std::string name() const override { return "values_become_gradients"; }
  std::vector<std::string> state_names() const override { return {}; }
  void update(const Fragment& fragment, const StepInfo&) const override {
    std::copy_n(fragment.gradient, fragment.length, fragment.values);
  }
};

// The reduced gradients of trainable parameters (and the values of frozen ones) after a body with one update at its
// end.
inline Values gradients_after(Job job, const Model& model, const Body& body) {
  job.optimizer.name = "program";
  return values_after(job, model, body, [] { return std::make_unique<ValuesBecomeGradients>(); });
}

// One micro-batch of a program that says itself which units it uses and what element i of a unit's gradient grows by.
// What stands inside of an unused unit is unused with it.
struct Terms {
  std::function<float(int unit, int64_t i)> term;
  std::function<bool(int unit)> forwards = [](int) { return true; };
  std::function<bool(int unit)> backwards = [](int) { return true; };  // of those whose forward ran
};

inline void forward(Runtime& runtime, const Terms& terms, int unit = 0) {
  if (!terms.forwards(unit)) return;
  runtime.forward({unit}, [&](const View&) {
    for (int child = 1; child < runtime.model().unit_count(); ++child)
      if (runtime.model().parent({child}).index == unit) forward(runtime, terms, child);
  });
}

inline void backward(Runtime& runtime, const Terms& terms, int unit = 0) {
  const Model& model = runtime.model();
  if (!terms.forwards(unit) || !terms.backwards(unit)) return;
  runtime.backward({unit}, [&](const View& view) {
    for (int child = model.unit_count() - 1; child > 0; --child)
      if (model.parent({child}).index == unit) backward(runtime, terms, child);
    for (int p = 0; p < static_cast<int>(model.spec({unit}).parameters.size()); ++p)
      add_contribution(
          view, p, [&](float, int64_t i) { return terms.term(unit, i); }, false);
  });
}

}  // namespace reshard::toy
