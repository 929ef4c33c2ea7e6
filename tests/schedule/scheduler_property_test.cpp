// Properties of the scheduler over random models, plans and programs: the verifier accepts every op, the totals agree
// with the verifier's own, memory returns to the resident level, gathers ahead stay within the distance; and the
// verifier itself rejects every single op that is changed.

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "reshard/error.h"
#include "schedule/declared.h"
#include "tests/schedule/program.h"

namespace reshard::schedule {
namespace {

Step step_of_any_order(Dice& dice, const Model& model) {
  Step step = random_step(dice, model);
  step.backward_order =
      dice.pick({BackwardOrder::micro_batch, BackwardOrder::since_backward, BackwardOrder::since_step});
  return step;
}

TEST(SchedulerProperty, EveryProgramIsLegalAndReturnsToTheResidentLevel) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Dice dice(seed);
    const Model model = random_model(dice, 40, 20000, seed % 3 == 2 ? 0.4 : 0);
    Program program(model, step_of_any_order(dice, model), dice);
    for (int act = dice.roll(3, 8); act > 0; --act) {
      switch (dice.roll(0, 6)) {
        case 0:
          program.declared_step();
          EXPECT_TRUE(program.at_rest());
          break;
        case 1:
        case 2:
          program.random_step();
          EXPECT_TRUE(program.at_rest());
          break;
        case 3: program.random_evaluation(); break;
        case 4: program.random_reads(); break;
        case 5:
          program.release();
          EXPECT_TRUE(program.at_rest());
          break;
        default:
          program.abandoned_step();
          EXPECT_TRUE(program.at_rest());
          program.declared_step();
          EXPECT_TRUE(program.at_rest());
          break;
      }
      ASSERT_FALSE(testing::Test::HasFailure());
    }
    program.declared_step();
    ASSERT_TRUE(program.at_rest());
  }
}

// Ranks that leave out different runs of units that may be unused, in forward-only passes and steps.
TEST(SchedulerProperty, RanksThatLeaveUnitsOutRunTheSameOps) {
  int64_t left_out = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Dice dice(seed);
    const Model model = random_model(dice, dice.pick({6, 12, 40}), 200, dice.pick({0.2, 0.5, 0.8}));
    const Step step = step_of_any_order(dice, model);
    RandomProgram random(model, dice, true);
    std::vector<Scheduler> ranks(3, Scheduler(step));
    for (int act = 0; act < 3; ++act) {
      const HookCalls calls = dice.chance(0.3) ? random.evaluation() : random.step(step.microbatches);
      std::vector<std::vector<Op>> ops(ranks.size());
      for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        const HookCalls mine = rank == 0 ? calls : leave_out(dice, step, calls);
        left_out += std::ssize(calls) - std::ssize(mine);
        for (const HookCall& call : mine) {
          const std::span<const Op> caused = ranks[rank].on(call.hook, call.unit);
          ops[rank].insert(ops[rank].end(), caused.begin(), caused.end());
        }
      }
      ASSERT_TRUE(ops[1] == ops[0] && ops[2] == ops[0]) << "act " << act;
    }
  }
  EXPECT_GT(left_out, 30000);
}

// "again" is declared to run twice, and "twice" once in it. Run twice in one run, it has not come to the other one.
TEST(SchedulerProperty, AUnitThatRunsOnceMoreHasNotComeToTheNextRunOfItsParent) {
  Model model({.name = "root", .parameters = {}});
  const int again = model.add({.name = "again", .parameters = {{"a", {4}}}, .repeats = 2}).index;
  const int twice = model.add({.name = "twice", .parameters = {{"b", {4}}}}, {again}).index;
  const int expert = model.add({.name = "expert", .parameters = {{"c", {4}}}, .may_be_unused = true}, {again}).index;
  const Step step = plain_step(model, 2, 1, 1, {});
  std::vector<std::vector<Op>> ops(2);
  for (const bool leaves_out : {false, true}) {
    Scheduler rank(step);
    const auto call = [&](Hook hook, int unit) {
      const std::span<const Op> caused = rank.on(hook, unit);
      ops[leaves_out].insert(ops[leaves_out].end(), caused.begin(), caused.end());
    };
    const auto run = [&](int unit) { call(Hook::before_forward, unit), call(Hook::after_forward, unit); };
    call(Hook::begin_evaluation, -1);
    call(Hook::before_forward, 0);
    call(Hook::before_forward, again);
    run(twice), run(twice);
    if (!leaves_out) run(expert);
    call(Hook::after_forward, again);
    call(Hook::after_forward, 0);
    call(Hook::end_evaluation, -1);
  }
  EXPECT_FALSE(ops[0].empty());
  EXPECT_TRUE(ops[0] == ops[1]);
}

TEST(SchedulerProperty, GathersAheadStayWithinTheDistance) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Dice dice(seed);
    const Model model = random_model(dice);
    const Step step = step_of_any_order(dice, model);
    int distance = 0;
    for (const ScheduledUnit& unit : step.units)
      distance = std::max({distance, unit.decision.prefetch_forward, unit.decision.prefetch_backward});
    Program program(model, step, dice);
    for (int steps = 0; steps < 2; ++steps) program.declared_step();
    ASSERT_LE(program.most_live_gathers(), 1 + distance);
    EXPECT_TRUE(step.backward_order == BackwardOrder::since_step || program.scheduler().prefetches_unused() == 0);
    EXPECT_EQ(program.scheduler().order_deviations(), 0);
  }
}

TEST(SchedulerProperty, UnitsInARowReachTheDistance) {
  Dice dice(1);
  Model model({.name = "root", .parameters = {{"r", {100}}}});
  for (int u = 0; u < 12; ++u) model.add({.name = std::to_string(u), .parameters = {{"p" + std::to_string(u), {100}}}});
  for (int distance = 0; distance <= kMaxPrefetch; ++distance) {
    Program program(model, plain_step(model, 2, 1, 1, {.prefetch_forward = distance, .prefetch_backward = distance}),
                    dice);
    program.declared_step();
    EXPECT_EQ(program.most_live_gathers(), 1 + distance);
  }
}

// One hook's ops, kept.
struct Call {
  Hook hook;
  int unit;
  std::vector<Op> ops;
};

bool accepted(const Step& step, const std::vector<Call>& calls) {
  Verifier verifier(step);
  try {
    for (const Call& call : calls) verifier.apply(call.hook, call.unit, call.ops);
  } catch (const Error&) {
    return false;
  }
  return true;
}

// Every op that differs from `op` in one thing that the op's kind has.
std::vector<Op> changed(const Op& op) {
  std::vector<Op> all;
  const auto add = [&](auto change) {
    all.push_back(op);
    change(all.back());
  };
  if (op.bytes > 0) add([](Op& it) { it.bytes += 4; });
  if (op.ranks > 0) add([](Op& it) { it.ranks += 1; });
  if (op.kind == OpKind::gather) add([](Op& it) { it.from_partial = !it.from_partial; });
  if (op.kind == OpKind::reduce || op.kind == OpKind::all_reduce) {
    add([](Op& it) { it.add = !it.add; });
    add([](Op& it) { it.into_scratch = !it.into_scratch; });
    add([](Op& it) { it.divide = !it.divide; });
  }
  if (op.kind == OpKind::allocate || op.kind == OpKind::release)
    add([](Op& it) { it.buffer = it.buffer == UnitBuffer::gradient ? UnitBuffer::saved : UnitBuffer::gradient; });
  return all;
}

TEST(VerifierProperty, EverySingleChangeOfALegalStreamIsRejected) {
  int64_t tried = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Dice dice(seed);
    const Model model = random_model(dice, 5);
    const Step step = random_step(dice, model);
    std::vector<Call> calls;
    Scheduler scheduler(step);
    declared_step(model, scheduler, [&](Hook hook, int unit, std::span<const Op> ops) {
      calls.push_back({hook, unit, {ops.begin(), ops.end()}});
    });
    ASSERT_TRUE(accepted(step, calls));
    for (Call& call : calls)
      for (std::size_t i = 0; i < call.ops.size(); ++i) {
        const std::vector<Op> kept = call.ops;
        const auto place = static_cast<std::ptrdiff_t>(i);
        const auto expect_rejected = [&](const char* how) {
          EXPECT_FALSE(accepted(step, calls))
              << how << " op " << i << " \"" << name(kept[i].kind) << "\" of " << name(call.hook) << ' ' << call.unit;
          call.ops = kept;
          ++tried;
        };
        call.ops.erase(call.ops.begin() + place);
        expect_rejected("without");
        call.ops.insert(call.ops.begin() + place, kept[i]);
        expect_rejected("twice");
        for (const Op& other : changed(kept[i])) {
          call.ops[i] = other;
          expect_rejected("changed");
        }
      }
  }
  EXPECT_GT(tried, 10000);
}

}  // namespace
}  // namespace reshard::schedule
