// Hooks at wrong times: each is refused with its reason, and the refusal changes nothing.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "reshard/error.h"
#include "schedule/scheduler.h"
#include "tests/schedule/plain_unit.h"

namespace reshard::schedule {
namespace {

using Calls = std::vector<std::pair<Hook, int>>;

Step two_units(int microbatches) {
  Step step;
  step.shards = 2;
  step.microbatches = microbatches;
  step.units = {plain_unit({}, 256), plain_unit({}, 256)};
  step.forward_order = {0, 1};
  return step;
}

// What the last call is refused with; "" when it is not. After a refusal the scheduler still gives what it would have.
std::string refusal(const Calls& before, Hook hook, int unit = -1, int microbatches = 1) {
  Scheduler scheduler(two_units(microbatches)), untouched(two_units(microbatches));
  for (const auto& [call, at] : before) {
    scheduler.on(call, at);
    untouched.on(call, at);
  }
  try {
    scheduler.on(hook, unit);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::model);
    const auto after = [](Scheduler& it) {
      const std::span<const Op> ops = it.on(Hook::abandon);
      return std::vector<Op>(ops.begin(), ops.end());
    };
    EXPECT_EQ(after(scheduler), after(untouched));
    return error.what();
  }
}

constexpr std::pair<Hook, int> kStep{Hook::begin_step, -1}, kBatch{Hook::begin_micro_batch, -1},
    kForward{Hook::before_forward, 1}, kForwardEnd{Hook::after_forward, 1}, kBackward{Hook::before_backward, 1},
    kBackwardEnd{Hook::after_backward, 1}, kReduce{Hook::reduce, -1}, kUpdate{Hook::update, -1},
    kEvaluate{Hook::begin_evaluation, -1}, kRead{Hook::before_read, 1};

std::string wrong(const std::string& hook, const std::string& why, const std::string& unit = "") {
  return unit + "the hook \"" + hook + "\" came at a wrong time: " + why;
}

TEST(Hooks, ThatBoundStepsStandInTheirOrder) {
  EXPECT_EQ(refusal({kStep}, Hook::begin_step), wrong("begin step", "a step or a forward-only pass is running"));
  EXPECT_EQ(refusal({kEvaluate}, Hook::begin_step), wrong("begin step", "a step or a forward-only pass is running"));
  EXPECT_EQ(refusal({kRead}, Hook::begin_step), wrong("begin step", "a unit is being read"));
  const std::string batch = "no step is running, its gradients are reduced already, or a unit is in use";
  EXPECT_EQ(refusal({}, Hook::begin_micro_batch), wrong("begin micro-batch", batch));
  EXPECT_EQ(refusal({kStep, kBatch, kForward}, Hook::begin_micro_batch, -1, 2), wrong("begin micro-batch", batch));
  EXPECT_EQ(refusal({kStep, kBatch, kReduce}, Hook::begin_micro_batch), wrong("begin micro-batch", batch));
  EXPECT_EQ(refusal({kStep, kBatch}, Hook::begin_micro_batch),
            wrong("begin micro-batch", "the step has no more micro-batches"));
  const std::string stage = "no step is running, it has been updated already, or a unit is in use";
  for (const auto& [hook, text] : {std::pair{Hook::reduce, "reduce"}, std::pair{Hook::update, "update"}}) {
    EXPECT_EQ(refusal({}, hook), wrong(text, stage));
    EXPECT_EQ(refusal({kStep, kBatch, kForward}, hook), wrong(text, stage));
    EXPECT_EQ(refusal({kStep, kBatch, kUpdate}, hook), wrong(text, stage));
    EXPECT_EQ(refusal({kStep}, hook), wrong(text, "the step has more micro-batches"));
    EXPECT_EQ(refusal({kStep, kBatch}, hook, -1, 2), wrong(text, "the step has more micro-batches"));
  }
  EXPECT_EQ(refusal({kStep, kBatch, kReduce, kReduce, kUpdate}, Hook::end_step), "");
  EXPECT_EQ(refusal({kStep, kBatch, kReduce}, Hook::end_step),
            wrong("end step", "no step is running, or it has not been updated"));
  EXPECT_EQ(refusal({}, Hook::end_step), wrong("end step", "no step is running, or it has not been updated"));
}

TEST(Hooks, OfAForwardStandInAPass) {
  const std::string no_pass = "neither a micro-batch nor a forward-only pass is running";
  EXPECT_EQ(refusal({}, Hook::before_forward, 1), wrong("before forward", no_pass, "unit 1: "));
  EXPECT_EQ(refusal({kStep}, Hook::before_forward, 0), wrong("before forward", no_pass, "unit 0: "));
  EXPECT_EQ(refusal({kStep, kBatch, kReduce}, Hook::before_forward, 1), wrong("before forward", no_pass, "unit 1: "));
  EXPECT_EQ(refusal({kStep, kBatch, kUpdate}, Hook::before_forward, 1), wrong("before forward", no_pass, "unit 1: "));
  const std::string closed = "the unit's forward is not running";
  EXPECT_EQ(refusal({kStep, kBatch}, Hook::after_forward, 1), wrong("after forward", closed, "unit 1: "));
  EXPECT_EQ(refusal({kStep, kBatch, kForward}, Hook::after_forward, 0), wrong("after forward", closed, "unit 0: "));
  EXPECT_EQ(
      refusal({kStep, kBatch, kForward, kForwardEnd, {Hook::before_forward, 0}, kBackward}, Hook::after_forward, 1),
      wrong("after forward", closed, "unit 1: "));
}

TEST(Hooks, OfABackwardFollowTheirForward) {
  const std::string no_batch = "no micro-batch is running", no_forward = "the unit's forward has not run as often";
  EXPECT_EQ(refusal({}, Hook::before_backward, 1), wrong("before backward", no_batch, "unit 1: "));
  EXPECT_EQ(refusal({kEvaluate, kForward, kForwardEnd}, Hook::before_backward, 1),
            wrong("before backward", no_batch, "unit 1: "));
  EXPECT_EQ(refusal({kStep, kBatch}, Hook::before_backward, 1), wrong("before backward", no_forward, "unit 1: "));
  EXPECT_EQ(refusal({kStep, kBatch, kForward, kForwardEnd, kBackward}, Hook::before_backward, 1),
            wrong("before backward", no_forward, "unit 1: "));
  EXPECT_EQ(refusal({kStep, kBatch, kForward, kForwardEnd, kBackward, kBackwardEnd}, Hook::before_backward, 1),
            wrong("before backward", no_forward, "unit 1: "));
  EXPECT_EQ(refusal({kStep, kBatch, kForward, kForwardEnd}, Hook::after_backward, 1),
            wrong("after backward", "the unit's backward is not running", "unit 1: "));
  EXPECT_EQ(refusal({kStep, kBatch, kForward, kForwardEnd, kBackward, kForward}, Hook::after_backward, 0),
            wrong("after backward", "the unit's backward is not running", "unit 0: "));
  // Forward, backward, forward, backward: fine until the last micro-batch, whose gradient is divided with its
  // reduction.
  const Calls turns = {kStep, kBatch, kForward, kForwardEnd, kBackward, kBackwardEnd, kForward, kForwardEnd};
  EXPECT_EQ(refusal(turns, Hook::before_backward, 1, 2), "");
  EXPECT_EQ(refusal(turns, Hook::before_backward, 1, 1),
            wrong("before backward",
                  "the unit's gradients of this step are reduced already; in the last micro-batch run all its forwards "
                  "before its "
                  "last backward",
                  "unit 1: "));
}

TEST(Hooks, BetweenStepsStandBetweenSteps) {
  const std::string running = "a step or a forward-only pass is running";
  EXPECT_EQ(refusal({kStep}, Hook::begin_evaluation),
            wrong("begin evaluation", "a forward-only pass stands between steps"));
  EXPECT_EQ(refusal({kEvaluate}, Hook::begin_evaluation),
            wrong("begin evaluation", "a forward-only pass stands between steps"));
  EXPECT_EQ(refusal({kRead}, Hook::begin_evaluation), wrong("begin evaluation", "a unit is being read"));
  EXPECT_EQ(refusal({}, Hook::end_evaluation),
            wrong("end evaluation", "no forward-only pass is running, or a unit is in use"));
  EXPECT_EQ(refusal({kEvaluate, kForward}, Hook::end_evaluation),
            wrong("end evaluation", "no forward-only pass is running, or a unit is in use"));
  EXPECT_EQ(refusal({kStep}, Hook::before_read, 1), wrong("before read", running, "unit 1: "));
  EXPECT_EQ(refusal({kEvaluate}, Hook::before_read, 0), wrong("before read", running, "unit 0: "));
  EXPECT_EQ(refusal({}, Hook::after_read, 1), wrong("after read", "the unit is not being read", "unit 1: "));
  EXPECT_EQ(refusal({kStep}, Hook::release), wrong("release", running));
  EXPECT_EQ(refusal({kRead}, Hook::release), wrong("release", "a unit is being read"));
}

TEST(Hooks, NameAUnitOfTheModel) {
  for (const Hook hook : {Hook::before_forward, Hook::after_forward, Hook::before_backward, Hook::after_backward,
                          Hook::before_read, Hook::after_read}) {
    EXPECT_EQ(refusal({kStep, kBatch}, hook, 2), wrong(name(hook), "the model has no such unit", "unit 2: "));
    EXPECT_EQ(refusal({kStep, kBatch}, hook, -1), wrong(name(hook), "the model has no such unit"));
  }
}

}  // namespace
}  // namespace reshard::schedule
