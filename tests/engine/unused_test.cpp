// Units that some ranks leave out of a pass: asked for, they take part with zeros; not asked for, both sides are named.

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/core.h"
#include "tests/engine/ways.h"
#include "tests/prompt.h"

namespace reshard {
namespace {

constexpr int kUnits = 6;

// Units 1 (with 2 inside) and 4 (with 5 inside) may be unused; 0, the root, and 3 are used by all.
Model experts() {
  Model model({.name = "root", .parameters = {{"a", {70}}}});
  const Unit first = model.add({.name = "e.0", .parameters = {{"e0", {130}}}, .may_be_unused = true});
  model.add({.name = "e.0.x", .parameters = {{"x0", {65}}}}, first);
  model.add({.name = "h", .parameters = {{"h", {200}}}});
  const Unit last = model.add({.name = "e.1", .parameters = {{"e1", {1}}}, .may_be_unused = true});
  model.add({.name = "e.1.x", .parameters = {{"x1", {64}}}}, last);
  return model;
}

struct Place {
  int64_t number;
  int rank, micro_batch;
};

// Every third number is about units that nobody uses.
bool uses(const Place& at, int unit, bool backward) {
  if (unit == 0 || unit == 3) return true;
  if (at.number % 3 == 2) return false;
  const int64_t mixed = at.number * 7 + at.rank * 5 + at.micro_batch * 3 + unit * 11 + (backward ? 1 : 0);
  return mixed * 2654435761 % 7 > 2;
}

// Whole numbers, which are exact in whatever order they are added.
float term(const Place& at, int unit, int64_t i) {
  return static_cast<float>((at.number * 5 + at.rank * 3 + at.micro_batch * 7 + unit + i) % 11 - 5);
}

toy::Terms terms_of(const Place& at) {
  return {.term = [at](int unit, int64_t i) { return term(at, unit, i); },
          .forwards = [at](int unit) { return uses(at, unit, false); },
          .backwards = [at](int unit) { return uses(at, unit, true); }};
}

bool contributes(const Model& model, const Place& at, int unit) {
  for (; unit != 0; unit = model.parent({unit}).index)
    if (!uses(at, unit, false) || !uses(at, unit, true)) return false;
  return true;
}

toy::Values expected(const Model& model, int64_t number, int ranks, int microbatches) {
  toy::Values sums;
  for (int u = 0; u < kUnits; ++u) {
    const Parameter& parameter = model.spec({u}).parameters[0];
    std::vector<float>& sum = sums[parameter.name];
    sum.assign(static_cast<std::size_t>(parameter.elements()), 0.0F);
    for (int rank = 0; rank < ranks; ++rank)
      for (int m = 0; m < microbatches; ++m)
        for (std::size_t i = 0; i < sum.size(); ++i)
          if (contributes(model, {number, rank, m}, u)) sum[i] += term({number, rank, m}, u, static_cast<int64_t>(i));
  }
  return sums;
}

Job job_of(const toy::Way& way, int microbatches, int prefetch) {
  Job job = toy::job(way, microbatches);
  job.optimizer.name = "program";
  job.train.divisor = "none";
  UnitOverride ahead;
  ahead.match = "*";
  ahead.prefetch_forward = Given<int>{prefetch, "test", {}};
  ahead.prefetch_backward = Given<int>{prefetch, "test", {}};
  job.strategy.units.push_back(ahead);
  return job;
}

// Each step's gradients are the sum over the ranks that used the unit; passes between the steps leave units out too.
void train_experts(const toy::Way& way, int microbatches, int prefetch, bool in_flight) {
  const Model model = experts();
  toy::run(
      job_of(way, microbatches, prefetch), model,
      [&](Runtime& runtime) {
        const int rank = runtime.rank().index();
        const auto at_rest = toy::live(runtime);
        for (int64_t number = 0; number < 4; ++number) {
          const auto run = [&](int m, bool forward) {
            const toy::Terms terms = terms_of({number, rank, m});
            forward ? toy::forward(runtime, terms) : toy::backward(runtime, terms);
          };
          if (in_flight) {  // each backward pass follows the next micro-batch's forward pass
            runtime.step_in_flight([&] {
              for (int m = 0; m <= microbatches; ++m)
                for (const bool forward : {true, false}) {
                  const int index = forward ? m : m - 1;
                  if (index < 0 || index == microbatches) continue;
                  runtime.enter_micro_batch(index);
                  run(index, forward);
                }
              return 0.0;
            });
          } else {
            runtime.step([&](MicroBatch at) {
              for (const bool forward : {true, false}) run(at.index, forward);
              return 0.0;
            });
          }
          EXPECT_EQ(toy::read_all(runtime), expected(model, number, way.ranks, microbatches))
              << way.text() << ", step " << number << ", " << microbatches << (in_flight ? " in flight" : "");
          EXPECT_EQ(toy::live(runtime), at_rest) << way.text() << ", step " << number;
          runtime.evaluate([&] {
            for (int pass = 0; pass < 3; ++pass) toy::forward(runtime, terms_of({number + pass, rank, 0}));
          });
          runtime.fill([](std::string_view, int64_t, std::span<float>) {});  // drops what the pass kept
        }
      },
      [] { return std::make_unique<toy::ValuesBecomeGradients>(); });
}

TEST(Unused, RanksThatLeaveAUnitOutTakePartWithZeros) {
  toy::for_each_way({1, 2, 3, 4}, [](const toy::Way& way) {
    for (const int microbatches : {1, 3}) train_experts(way, microbatches, microbatches, false);
  });
}

TEST(Unused, WithMicroBatchesInFlightToo) {
  toy::for_each_way({1, 2, 3}, [](const toy::Way& way) { train_experts(way, 3, 1, true); });
}

// A block with two experts inside, each used by the ranks of its parity, between two ordinary units; a program that runs
// them in another order, the block twice, or recomputes it.
struct Deviation {
  std::vector<int> order;  // units inside of the root; 2 is the block
  bool recompute = false;
};

constexpr int kFirst = 1, kBlock = 2, kExperts = 3, kLast = 5;

void run_block(Runtime& runtime, bool recompute, bool forward) {
  const Unit expert{kExperts + runtime.rank().index() % 2};
  const auto add_one = [](const View& view) { view.gradient(0)[0] += 1.0F; };
  if (forward) return runtime.forward({kBlock}, [&](const View&) { runtime.forward(expert, [](const View&) {}); });
  runtime.backward({kBlock}, [&](const View& view) {
    if (recompute) run_block(runtime, false, true);
    runtime.backward(expert, add_one);
    add_one(view);
  });
}

void run_pass(Runtime& runtime, const Deviation& deviation) {
  runtime.forward(kRoot, [&](const View&) {
    for (const int unit : deviation.order)
      unit == kBlock ? run_block(runtime, false, true) : runtime.forward({unit}, [](const View&) {});
  });
  runtime.backward(kRoot, [&](const View&) {
    for (auto unit = deviation.order.rbegin(); unit != deviation.order.rend(); ++unit)
      if (*unit == kBlock)
        run_block(runtime, deviation.recompute, false);
      else
        runtime.backward({*unit}, [](const View& view) { view.gradient(0)[0] += 1.0F; });
  });
}

TEST(Unused, OrderRepetitionAndRecomputationAreTheProgramsOwn) {
  Model model({.name = "root", .parameters = {{"r", {3}}}});
  model.add({.name = "first", .parameters = {{"first.w", {70}}}});
  const Unit block = model.add({.name = "block", .parameters = {{"block.w", {70}}}});
  for (const char* name : {"e.0", "e.1"})
    model.add({.name = name, .parameters = {{name, {64}}}, .may_be_unused = true}, block);
  model.add({.name = "last", .parameters = {{"last.w", {70}}}});
  const std::vector<Deviation> deviations{{{kFirst, kBlock, kLast}, true},
                                          {{kLast, kBlock, kFirst}},
                                          {{kBlock, kFirst, kBlock, kLast}, true},
                                          {{kFirst, kLast}},
                                          {{kFirst, kBlock, kLast, kLast}}};
  toy::for_each_way({1, 2, 4}, [&](const toy::Way& way) {
    toy::run(
        job_of(way, 2, 1), model,
        [&](Runtime& runtime) {
          for (const Deviation& deviation : deviations) {
            runtime.step([&](MicroBatch) { return run_pass(runtime, deviation), 0.0; });
            const auto expect = [&](const char* name, int unit, int ranks) {
              const auto runs = std::count(deviation.order.begin(), deviation.order.end(), unit);
              EXPECT_EQ(runtime.read(name)[0], static_cast<float>(2 * runs * ranks)) << name << ", " << way.text();
            };
            expect("first.w", kFirst, way.ranks);
            expect("last.w", kLast, way.ranks);
            if (std::count(deviation.order.begin(), deviation.order.end(), kBlock) == 0) continue;
            expect("block.w", kBlock, way.ranks);
            expect("e.0", kBlock, (way.ranks + 1) / 2);
            expect("e.1", kBlock, way.ranks / 2);
          }
        },
        [] { return std::make_unique<toy::ValuesBecomeGradients>(); });
  });
}

void run_step_of_two(Runtime& runtime, bool turned) {
  const Unit first{turned ? 2 : 1}, second{turned ? 1 : 2};
  const auto add_one = [](const View& view) { view.gradient(0)[0] += 1.0F; };
  runtime.step([&](MicroBatch) {
    runtime.forward(kRoot, [&](const View&) {
      for (const Unit unit : {first, second}) runtime.forward(unit, [](const View&) {});
    });
    runtime.backward(kRoot, [&](const View&) {
      for (const Unit unit : {second, first}) runtime.backward(unit, add_one);
    });
    return 0.0;
  });
}

// Two such units in a row that every rank uses, the other way round in every second step.
TEST(Unused, UnitsThatNoRankLeavesOutMayComeInAnyOrder) {
  Model model({.name = "root"});
  for (const char* name : {"a", "b"}) model.add({.name = name, .parameters = {{name, {64}}}, .may_be_unused = true});
  toy::for_each_way({1, 2, 3}, [&](const toy::Way& way) {
    toy::run(
        job_of(way, 2, 1), model,
        [&](Runtime& runtime) {
          for (int number = 0; number < 4; ++number) {
            run_step_of_two(runtime, number % 2 == 1);
            for (const char* name : {"a", "b"})
              EXPECT_EQ(runtime.read(name)[0], static_cast<float>(2 * way.ranks)) << name << ", " << way.text();
          }
        },
        [] { return std::make_unique<toy::ValuesBecomeGradients>(); });
  });
}

// The last rank leaves unit `left_out` out of one pass.
std::string error_of_leaving_out(const toy::Way& way, int left_out, const Model& model, bool evaluates = false) {
  std::vector<std::string> errors(static_cast<std::size_t>(way.ranks));
  const auto begin = std::chrono::steady_clock::now();
  const int prefetch = evaluates ? 0 : 1;  // a unit that is gathered ahead and left out is no error in itself
  Job job = job_of(way, 1, prefetch);
  job.optimizer.name = "adamw";
  toy::run(job, model, [&](Runtime& runtime) {
    const int rank = runtime.rank().index();
    const toy::Terms terms{.term = [](int, int64_t) { return 1.0F; },
                           .forwards = [&](int unit) { return unit != left_out || rank + 1 < way.ranks; }};
    errors[static_cast<std::size_t>(rank)] = toy::error_of([&] {
      if (evaluates) return runtime.evaluate([&] { toy::forward(runtime, terms); });
      runtime.step([&](MicroBatch) {
        toy::forward(runtime, terms);
        toy::backward(runtime, terms);
        return 0.0;
      });
    });
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, tests::kPrompt) << way.text();
  for (int rank = 0; rank < way.ranks; ++rank) {  // each says the same, and who it is
    const std::string self = "rank " + std::to_string(rank) + ": ";
    std::string& error = errors[static_cast<std::size_t>(rank)];
    EXPECT_EQ(error.substr(0, self.size()), self) << error;
    error = error.substr(std::min(error.size(), self.size()));
    EXPECT_EQ(error, errors[0]) << way.text();
  }
  return errors[0];
}

std::string disagreement(int other, int number, const std::string& first, const std::string& second) {
  return fmt::format(
      "ranks 0 and {} disagree in collective {}: rank 0 is in {}, rank {} is in {} (every rank must run the "
      "same units in the same order)",
      other, number, first, other, second);
}

TEST(Unused, NotAskedForBothUnitsAreNamedOnAllRanks) {
  Model model({.name = "root", .parameters = {{"a", {70}}}});
  for (const char* name : {"h.0", "h.1", "h.2"}) model.add({.name = name, .parameters = {{name, {100}}}});
  // h.1 has been gathered ahead by all ranks: what differs first is the backward pass.
  const auto text = [](int last, int number, const std::string& op, int bytes) {
    const std::string size = fmt::format(" ({} bytes, fp32)", bytes);
    return disagreement(last, number, op + " of unit h.1" + size, op + " of unit h.0" + size);
  };
  for (const bool overlap : {false, true})
    for (const int ranks : {2, 3}) {
      const auto left_out = [&](const char* strategy) {
        return error_of_leaving_out({strategy, ranks, overlap}, 2, model);
      };
      EXPECT_EQ(left_out("zero3"), text(ranks - 1, 7, "all-gather", 256));
      EXPECT_EQ(left_out("root_no_reshard"), text(ranks - 1, 6, "all-gather", 256));
      EXPECT_EQ(left_out("zero2"), text(ranks - 1, 6, "reduce-scatter", 256));
      EXPECT_EQ(left_out("zero1"), text(ranks - 1, 6, "reduce-scatter", 256));
      EXPECT_EQ(left_out("replicate"), text(ranks - 1, 2, "all-reduce", 512));
    }
}

// The others wait in a collective of the unit that this rank will never come to.
TEST(Unused, NotAskedForTheUnitThatOthersWaitInIsNamedWithTheStepsEnd) {
  Model model({.name = "root"});
  model.add({.name = "h.0", .parameters = {{"w", {100}}}});
  toy::for_each_way({2, 3}, [&](const toy::Way& way) {
    const int last = way.ranks - 1;
    const std::string norm = fmt::format("exchange of gradient norm ({} bytes, bytes)", sizeof(engine::NormPart));
    const std::string error = error_of_leaving_out(way, 1, model);
    const Job job = toy::with_budget(job_of(way, 1, 1), model, 2);
    const Plan plan = engine::plan_strategy(job, model, {job.strategy.plugin, {}, "test"}, 2).plan;
    if (plan.shards == 1)
      EXPECT_EQ(error, disagreement(last, 1, "all-reduce of unit h.0 (512 bytes, fp32)", "barrier (0 bytes, bytes)"));
    else if (plan.units[1].decision.after_forward == AfterForward::keep())
      EXPECT_EQ(error, disagreement(last, 2, "reduce-scatter of unit h.0 (256 bytes, fp32)", norm));
    else
      EXPECT_EQ(error, disagreement(last, 2, "all-gather of unit h.0 (256 bytes, fp32)", norm));
  });
}

TEST(Unused, NotAskedForInAForwardOnlyPassTheUnitIsNamedWithThePassesEnd) {
  Model model({.name = "root"});
  model.add({.name = "h.0", .parameters = {{"w", {100}}}});
  for (const bool overlap : {false, true})
    for (const char* strategy : {"zero1", "zero2", "zero3", "root_no_reshard"})
      EXPECT_EQ(error_of_leaving_out({strategy, 2, overlap}, 1, model, true),
                disagreement(1, 1, "all-gather of unit h.0 (256 bytes, fp32)", "barrier (0 bytes, bytes)"));
}

}  // namespace
}  // namespace reshard
