// How many gathers and reduces a declared step makes under each policy, and how many bytes a rank receives: closed
// formulas, to the byte.

#include <array>
#include <chrono>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "schedule/declared.h"
#include "tests/schedule/program.h"
#include "tests/schedule/plain_unit.h"

namespace reshard::schedule {
namespace {

// B blocks with parameters of their own in a root with parameters.
Model blocks_in_root(int blocks) {
  Model model({.name = "root", .parameters = {{"root.w", {777}}}});
  for (int b = 0; b < blocks; ++b)
    model.add({.name = "h." + std::to_string(b), .parameters = {{"h." + std::to_string(b) + ".w", {1000 + b}}}});
  return model;
}

struct Counts {
  int64_t gathers_forward = 0, gathers_backward = 0, gathers_over_k = 0, reduces = 0, all_reduces = 0, shrinks = 0;
};

Counts count(const Model& model, const Step& step) {
  Counts counts;
  Scheduler scheduler(step);
  bool forward = true;  // a pass is a forward until the root's backward begins
  declared_step(model, scheduler, [&](Hook hook, int, std::span<const Op> ops) {
    if (hook == Hook::begin_micro_batch) forward = true;
    if (hook == Hook::before_backward) forward = false;
    for (const Op& op : ops) {
      if (op.kind == OpKind::gather) ++(forward ? counts.gathers_forward : counts.gathers_backward);
      if (op.kind == OpKind::gather && op.ranks < step.shards) ++counts.gathers_over_k;
      counts.reduces += op.kind == OpKind::reduce ? 1 : 0;
      counts.all_reduces += op.kind == OpKind::all_reduce ? 1 : 0;
      counts.shrinks += op.kind == OpKind::shrink ? 1 : 0;
    }
  });
  return counts;
}

TEST(Counts, AreThoseOfTheFieldForEveryPolicyAndEveryNumberOfBlocks) {
  for (const int b : {0, 1, 2, 3, 7, 32}) {
    SCOPED_TRACE(std::to_string(b) + " blocks");
    const Model model = blocks_in_root(b);
    const int64_t all = b + 1;

    Counts free = count(model, plain_step(model, 4, 1, 1, {}));
    EXPECT_EQ(free.gathers_forward, all);
    EXPECT_EQ(free.gathers_backward, all);
    EXPECT_EQ(free.reduces, all);

    Step root_kept = plain_step(model, 4, 1, 1, {});
    root_kept.units[0].decision.after_forward = AfterForward::keep();
    const Counts kept_root = count(model, root_kept);
    EXPECT_EQ(kept_root.gathers_forward, all);
    EXPECT_EQ(kept_root.gathers_backward, b);
    EXPECT_EQ(kept_root.reduces, all);

    const Counts kept = count(model, plain_step(model, 4, 1, 1, {.after_forward = AfterForward::keep()}));
    EXPECT_EQ(kept.gathers_forward, all);
    EXPECT_EQ(kept.gathers_backward, 0);
    EXPECT_EQ(kept.reduces, all);

    const Counts shrunk = count(model, plain_step(model, 4, 1, 1, {.after_forward = AfterForward::shrink(2)}));
    EXPECT_EQ(shrunk.gathers_forward, all);
    EXPECT_EQ(shrunk.gathers_backward, all);
    EXPECT_EQ(shrunk.gathers_over_k, all);
    EXPECT_EQ(shrunk.shrinks, all);
    EXPECT_EQ(shrunk.reduces, all);

    for (const int m : {1, 2, 5}) {
      const Decision once{
          .after_forward = AfterForward::keep(), .after_backward = AfterBackward::keep, .reduce = Reduce::last};
      const Counts sharded_optimizer = count(model, plain_step(model, 4, 1, m, once));
      EXPECT_EQ(sharded_optimizer.gathers_forward, all);
      EXPECT_EQ(sharded_optimizer.gathers_backward, 0);
      EXPECT_EQ(sharded_optimizer.reduces, all);

      const Counts alone = count(model, plain_step(model, 1, 1, m, {.after_forward = AfterForward::shrink(1)}));
      EXPECT_EQ(alone.gathers_forward + alone.gathers_backward + alone.reduces + alone.all_reduces + alone.shrinks, 0);

      const Counts replicated = count(model, plain_step(model, 1, 4, m, once));
      EXPECT_EQ(replicated.gathers_forward + replicated.gathers_backward + replicated.reduces, 0);
      EXPECT_EQ(replicated.all_reduces, all);

      Step hybrid = plain_step(model, 2, 2, m, {});
      EXPECT_EQ(count(model, hybrid).all_reduces, all * m);
      hybrid.all_reduce = AllReduce::last;
      EXPECT_EQ(count(model, hybrid).all_reduces, all);
      EXPECT_EQ(count(model, hybrid).reduces, all * m);
    }
  }
}

TEST(Counts, AFrozenUnitIsGatheredAndNotReduced) {
  const Model model = blocks_in_root(3);
  Step step = plain_step(model, 4, 1, 2, {});
  step.units[2].gradient_bytes = step.units[2].reduced_bytes = 0;
  const Counts counts = count(model, step);
  EXPECT_EQ(counts.gathers_forward + counts.gathers_backward, 2 * 2 * 4);
  EXPECT_EQ(counts.reduces, 2 * 3);
}

// A unit of `whole` padded bytes in `m` micro-batches: what its decisions cost, each unit in a row under the root.
struct Cost {
  int64_t gathers = 0, gather_bytes = 0, shrinks = 0, reduces = 0, reduce_bytes = 0, all_reduces = 0,
          all_reduce_bytes = 0;
};

Cost closed_formula(const ScheduledUnit& unit, const Step& step) {
  const Decision& d = unit.decision;
  const int64_t m = step.microbatches, n = step.shards, r = step.replicas, whole = unit.copy_bytes * n;
  Cost cost;
  if (whole == 0) return cost;
  const int64_t received = whole / n * (n - 1);
  const bool keeps = d.after_forward.kind == AfterForward::Kind::keep,
             shrinks = d.after_forward.kind == AfterForward::Kind::shrink;
  if (n > 1) {
    const int64_t forward = d.after_backward == AfterBackward::keep ? 1 : m;  // from the shards
    const int64_t backward = keeps || !unit.read_in_backward ? 0 : m;
    cost.gathers = forward + backward;
    cost.gather_bytes =
        forward * received +
        (shrinks ? backward * (whole / d.after_forward.ranks * (d.after_forward.ranks - 1)) : backward * received);
    cost.shrinks = shrinks ? m : 0;
  }
  const int64_t reduced = unit.gradient_bytes == 0 ? 0 : d.reduce == Reduce::each ? m : 1;
  if (n > 1) cost.reduces = reduced;
  const bool accumulated = unit.converts && d.reduce == Reduce::last && m > 1;
  cost.reduce_bytes = cost.reduces * (n - 1) * (accumulated ? unit.reduced_bytes : unit.gradient_bytes);
  if (r > 1) cost.all_reduces = step.all_reduce == AllReduce::each ? reduced : unit.gradient_bytes > 0 ? 1 : 0;
  if (n == 1 && r > 1 && step.all_reduce == AllReduce::last) cost.all_reduces = unit.gradient_bytes > 0 ? 1 : 0;
  cost.all_reduce_bytes = cost.all_reduces * (2 * unit.reduced_bytes * (r - 1) / r);
  return cost;
}

TEST(Counts, BytesPerRankEqualTheFormulaToTheByte) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Dice dice(seed);
    const Model drawn = random_model(dice);
    Model model(drawn.spec(kRoot));  // the same units in a row, each run once: what the formula is for
    for (int u = 1; u < drawn.unit_count(); ++u) {
      UnitSpec spec = drawn.spec({u});
      spec.repeats = 1;
      model.add(spec);
    }
    Step step = random_step(dice, model);
    for (ScheduledUnit& unit : step.units)
      if (!unit.read_in_backward) unit.decision.after_backward = AfterBackward::free;  // else: as often as it is used
    Cost expected;
    for (const ScheduledUnit& unit : step.units) {
      const Cost cost = closed_formula(unit, step);
      expected.gathers += cost.gathers;
      expected.gather_bytes += cost.gather_bytes;
      expected.shrinks += cost.shrinks;
      expected.reduces += cost.reduces;
      expected.reduce_bytes += cost.reduce_bytes;
      expected.all_reduces += cost.all_reduces;
      expected.all_reduce_bytes += cost.all_reduce_bytes;
    }
    Program program(model, step, dice);
    program.declared_step();
    const TrafficByOp& traffic = program.totals().traffic();
    EXPECT_EQ(traffic.gather.count, expected.gathers);
    EXPECT_EQ(traffic.gather.bytes, expected.gather_bytes);
    EXPECT_EQ(traffic.shrink.count, expected.shrinks);
    EXPECT_EQ(traffic.shrink.bytes, 0);
    EXPECT_EQ(traffic.reduce.count, expected.reduces);
    EXPECT_EQ(traffic.reduce.bytes, expected.reduce_bytes);
    EXPECT_EQ(traffic.all_reduce.count, expected.all_reduces);
    EXPECT_EQ(traffic.all_reduce.bytes, expected.all_reduce_bytes);
  }
}

// In a shard group of one a gradient that is still being exchanged when the step ends becomes the sum only after that,
// and a divisor that is known only then must not miss it.
TEST(Reductions, AGradientThatIsLeftForTheEndOfTheStepIsDividedToo) {
  const Model model({.name = "root", .parameters = {{"p", {100}}}});
  for (const AllReduce exchange : {AllReduce::each, AllReduce::last})
    for (const bool overlap : {false, true})
      for (const bool late : {false, true})
        for (const Dtype dtype : {Dtype::fp32, Dtype::bf16}) {
          Step step = step_of(model, {.shards = 1, .replicas = 2}, 2, {dtype, Dtype::fp32});
          step.all_reduce = exchange;
          step.overlap = overlap;
          step.divide_at_end = late;
          step.units[0].decision.reduce = Reduce::last;
          Dice dice(1);
          Program program(model, step, dice);
          for (const Hook hook : {Hook::begin_step, Hook::begin_micro_batch, Hook::before_forward, Hook::after_forward,
                                  Hook::before_backward, Hook::after_backward, Hook::begin_micro_batch, Hook::reduce,
                                  Hook::update, Hook::end_step})
            EXPECT_NO_THROW(program.hook(hook, 0)) << name(hook) << ", overlap " << overlap << ", late " << late;
          EXPECT_TRUE(program.at_rest());
        }
}

// What is live beside shards and the reduced gradients' shards: with freed units, a constant however many there are.
TEST(Totals, TransientBytesDoNotGrowWithDepth) {
  for (const Dtype dtype : {Dtype::fp32, Dtype::bf16})
    for (const int prefetch : {0, 1, 3}) {
      std::vector<int64_t> transient;
      for (const int depth : {8, 16, 64, 200}) {
        Model model({.name = "root"});
        for (int u = 0; u < depth; ++u)
          model.add({.name = std::to_string(u), .parameters = {{"p" + std::to_string(u), {6400}}}});
        Step step = step_of(model, {.shards = 4, .replicas = 1}, 2, {dtype, Dtype::fp32});
        for (ScheduledUnit& unit : step.units)
          unit.decision = {.prefetch_forward = prefetch, .prefetch_backward = prefetch};
        Scheduler scheduler(step);
        int64_t shards = 0, most = 0;
        Totals totals(BytesByCategory{});
        declared_step(model, scheduler, [&](Hook hook, int unit, std::span<const Op> ops) {
          for (const Op& op : ops) {
            totals.apply(hook, unit, scheduler.micro_batch(), {&op, 1});
            const bool of_shard = op.buffer == UnitBuffer::gradient_shard;
            if (of_shard && op.kind == OpKind::allocate) shards += op.bytes;
            if (of_shard && op.kind == OpKind::release) shards -= op.bytes;
            int64_t live = 0;
            for (const int64_t bytes : totals.now()) live += bytes;
            most = std::max(most, live - shards);
          }
        });
        transient.push_back(most);
      }
      EXPECT_GT(transient[0], 0);
      EXPECT_EQ(std::set<int64_t>(transient.begin(), transient.end()).size(), 1U) << "prefetch " << prefetch;
      EXPECT_LE(transient[0], (2 + prefetch) * 6400 * bytes_of(dtype));  // copies ahead and at work, and a gradient
    }
}

TEST(Totals, ThePeakNamesItsUnitAndMoment) {
  Model model({.name = "root"});
  model.add({.name = "small", .parameters = {{"s", {64}}}});
  model.add({.name = "large", .parameters = {{"l", {6400}}}, .saved_bytes = 100});
  Totals totals({1000, 0, 0, 0, 24, 0});
  Scheduler scheduler(plain_step(model, 2, 1, 2, {.prefetch_forward = 0, .prefetch_backward = 0}));
  declared_step(model, scheduler, [&](Hook hook, int unit, std::span<const Op> ops) {
    totals.apply(hook, unit, scheduler.micro_batch(), ops);
  });
  const MemoryPeak peak = totals.peak(model);
  // Large's whole parameters and gradient, what it saved, its gradient shard and small's from the first micro-batch.
  EXPECT_EQ(peak.bytes, (std::array<int64_t, kMemoryCategories>{1000, 25600, 25600 + 12800 + 256, 0, 24, 100}));
  EXPECT_EQ(peak.unit, "large");
  EXPECT_EQ(peak.moment, "before backward, micro-batch 1");
  EXPECT_EQ(totals.peak_bytes(), peak.total());
  EXPECT_EQ(totals.now(), (BytesByCategory{1000, 0, 0, 0, 24, 0}));
  EXPECT_EQ(moment_text(Hook::before_read, -1), "before read");
}

// A call's cost does not grow with the step's micro-batches: quadratic, this would take minutes.
TEST(Counts, AStepOfManyMicroBatchesEnds) {
  Model model({.name = "root"});
  for (const char* name : {"a", "b", "c"}) model.add({.name = name, .parameters = {{name, {64}}}});
  Scheduler scheduler(plain_step(model, 2, 1, 200'000, {}));
  const auto began = std::chrono::steady_clock::now();
  int64_t reduces = 0;
  declared_step(model, scheduler, [&](Hook, int, std::span<const Op> ops) {
    for (const Op& op : ops) reduces += op.kind == OpKind::reduce ? 1 : 0;
  });
  EXPECT_EQ(reduces, 3 * 200'000);
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(30));
}

}  // namespace
}  // namespace reshard::schedule
