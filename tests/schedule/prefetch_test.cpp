// The order of prefetching: which units a hook gathers, in which order, by design of the distances.

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "schedule/scheduler.h"
#include "schedule/verify.h"
#include "tests/schedule/plain_unit.h"

namespace reshard::schedule {
namespace {

// Units 0 (the root) to n-1 in a row, driven by hand; every op is verified.
class Row {
 public:
  Row(int units, Decision decision, int microbatches = 1)
      : step_(row(units, decision, microbatches)), scheduler_(step_), verifier_(step_) {}
  explicit Row(const Step& step) : step_(step), scheduler_(step), verifier_(step) {}

  static Step row(int units, Decision decision, int microbatches = 1) {
    Step step;
    step.shards = 4;
    step.microbatches = microbatches;
    for (int u = 0; u < units; ++u) {
      step.units.push_back(plain_unit(decision, 256));
      step.forward_order.push_back(u);
    }
    return step;
  }

  // The units gathered by the hook, in order: "2 3"; units freed or shrunk: "-2".
  std::string on(Hook hook, int unit = -1) {
    const std::span<const Op> ops = scheduler_.on(hook, unit);
    verifier_.apply(hook, unit, ops);
    std::string text;
    for (const Op& op : ops) {
      if (op.kind != OpKind::gather && op.kind != OpKind::free && op.kind != OpKind::shrink) continue;
      text += (text.empty() ? "" : " ") + std::string(op.kind == OpKind::gather ? "" : "-") + std::to_string(op.unit);
    }
    return text;
  }
  void begin() {
    on(Hook::begin_step);
    on(Hook::begin_micro_batch);
  }
  void end() {
    on(Hook::update);
    on(Hook::end_step);
  }
  std::string run(int unit) {
    const std::string gathered = on(Hook::before_forward, unit);
    on(Hook::after_forward, unit);
    return gathered;
  }
  std::string back(int unit) {
    const std::string gathered = on(Hook::before_backward, unit);
    on(Hook::after_backward, unit);
    return gathered;
  }
  // A whole step that runs the units in this order inside the root.
  std::string step(const std::vector<int>& order) {
    begin();
    std::string all = on(Hook::before_forward, 0);
    for (const int unit : order) all += "|" + run(unit);
    on(Hook::after_forward, 0);
    all += " / " + on(Hook::before_backward, 0);
    for (auto unit = order.rbegin(); unit != order.rend(); ++unit) all += "|" + back(*unit);
    on(Hook::after_backward, 0);
    end();
    return all;
  }
  Scheduler& scheduler() { return scheduler_; }

 private:
  Step step_;
  Scheduler scheduler_;
  Verifier verifier_;
};

constexpr Decision ahead(int forward, int backward) {
  return {.prefetch_forward = forward, .prefetch_backward = backward};
}

TEST(Prefetch, ADistanceOfOneGathersTheNextUnitBeforeThisOneComputes) {
  EXPECT_EQ(Row(4, ahead(0, 0)).step({1, 2, 3}), "0|1|2|3 / 0|3|2|1");
  EXPECT_EQ(Row(4, ahead(1, 1)).step({1, 2, 3}), "0 1|2|3| / 0 3|2|1|");
  EXPECT_EQ(Row(5, ahead(2, 3)).step({1, 2, 3, 4}), "0 1 2|3|4|| / 0 4 3 2|1|||");
  EXPECT_EQ(Row(3, ahead(8, 8)).step({1, 2}), "0 1 2|| / 0 2 1||");
}

TEST(Prefetch, WholeUnitsCountAsPlacesAndGatherNothing) {
  Step step = Row::row(6, ahead(2, 2));
  step.units[2].decision.after_forward = step.units[3].decision.after_forward = AfterForward::keep();
  EXPECT_EQ(Row(step).step({1, 2, 3, 4, 5}), "0 1 2|3|4|5|| / 0 5 4|||1||");
}

TEST(Prefetch, UnitsWithoutParametersCountAsPlaces) {
  Step step = Row::row(5, ahead(1, 1));
  step.units[0] = plain_unit(step.units[0].decision, 0);
  step.units[2] = plain_unit(step.units[2].decision, 0);
  EXPECT_EQ(Row(step).step({1, 2, 3, 4}), "1||3|4| / 4|3||1|");
}

TEST(Prefetch, ForwardFollowsTheRecordedOrderOfTheLastStep) {
  Row row(4, ahead(1, 1));
  EXPECT_EQ(row.step({1, 2, 3}), "0 1|2|3| / 0 3|2|1|");
  // The order changes: 3 is gathered ahead of a place that does not come. Backward follows this micro-batch's own
  // order.
  EXPECT_EQ(row.step({3, 1, 2}), "0 1|3|2|3 / 0 2|1|3|");
  EXPECT_EQ(row.scheduler().order_deviations(), 1);
  EXPECT_EQ(row.scheduler().prefetches_unused(), 1);
  EXPECT_EQ(row.step({3, 1, 2}), "0 3|1|2| / 0 2|1|3|");
  EXPECT_EQ(row.scheduler().order_deviations(), 2);
  EXPECT_EQ(row.scheduler().prefetches_unused(), 1);
}

// Behind the first unit of the micro-batch lies the last one of the evaluation, whose backward is over or never comes.
TEST(Prefetch, OnlyAnOrderOfSeveralPassesGathersWhatTheMicroBatchIsDoneWith) {
  for (const BackwardOrder order :
       {BackwardOrder::micro_batch, BackwardOrder::since_backward, BackwardOrder::since_step}) {
    Step step = Row::row(4, ahead(0, 1));
    step.backward_order = order;
    step.units[0] = plain_unit(step.units[0].decision, 0);
    Row row(step);
    const bool own = order == BackwardOrder::micro_batch;
    const std::string plain = own ? "|1|2|3 / 3|2|1|" : "|1|2|3 / |3 2|1|";
    EXPECT_EQ(row.step({1, 2, 3}), plain);
    for (int pass = 0; pass < 5; ++pass) {
      row.on(Hook::begin_evaluation);
      for (const int unit : {1, 2, 3}) row.run(unit);
      row.run(0);
      row.on(Hook::end_evaluation);
    }
    EXPECT_EQ(row.step({1, 2, 3}), own ? plain : "|1|2|3 / |3 2|1|3");
    EXPECT_EQ(row.scheduler().prefetches_unused(), own ? 0 : 1);
    EXPECT_EQ(row.step({1, 2, 3}), plain) << "the backward's end has cleared the order";
  }
}

// The order of a whole step remembers the micro-batch before; that of one backward forgets it.
TEST(Prefetch, AnOrderIsForgottenWhenItsBackwardEnds) {
  for (const BackwardOrder order :
       {BackwardOrder::micro_batch, BackwardOrder::since_backward, BackwardOrder::since_step}) {
    Step step = Row::row(3, ahead(0, 1), 3);
    step.backward_order = order;
    step.units[0] = plain_unit(step.units[0].decision, 0);
    Row row(step);
    row.on(Hook::begin_step);
    for (int m = 0; m < 3; ++m) {
      row.on(Hook::begin_micro_batch);
      row.on(Hook::before_forward, 0);
      for (const int unit : {1, 2}) row.run(unit);
      row.on(Hook::after_forward, 0);
      row.on(Hook::before_backward, 0);
      row.back(2);
      EXPECT_EQ(row.back(1), m > 0 && order == BackwardOrder::since_step ? "2" : "");
      EXPECT_EQ(row.on(Hook::after_backward, 0), m > 0 && order == BackwardOrder::since_step ? "-2" : "");
    }
    row.end();
    EXPECT_EQ(row.scheduler().prefetches_unused(), order == BackwardOrder::since_step ? 2 : 0);
  }
}

TEST(Prefetch, WhatIsGatheredAheadAndNotUsedIsFreedWhenTheRootLeaves) {
  Row row(4, ahead(2, 2));
  row.begin();
  EXPECT_EQ(row.on(Hook::before_forward, 0), "0 1 2");
  row.run(3);
  EXPECT_EQ(row.on(Hook::after_forward, 0), "-1 -2 -0");
  EXPECT_EQ(row.scheduler().prefetches_unused(), 2);
  EXPECT_EQ(row.on(Hook::before_backward, 0), "0 3");  // only what ran
  EXPECT_EQ(row.on(Hook::after_backward, 0), "-0 -3");
  EXPECT_EQ(row.scheduler().prefetches_unused(), 3);
  row.end();
}

TEST(Prefetch, ARecomputeNeitherFreesNorEntersTheOrder) {
  Row row(3, ahead(1, 1));
  row.begin();
  row.on(Hook::before_forward, 0);
  row.run(1);
  row.run(2);
  row.on(Hook::after_forward, 0);
  EXPECT_EQ(row.on(Hook::before_backward, 0), "0 2");
  EXPECT_EQ(row.on(Hook::before_backward, 2), "1");
  EXPECT_EQ(row.on(Hook::before_forward, 2), "");
  EXPECT_EQ(row.on(Hook::after_forward, 2), "");
  EXPECT_EQ(row.on(Hook::after_backward, 2), "-2");
  EXPECT_EQ(row.back(1), "");
  EXPECT_EQ(row.on(Hook::after_backward, 0), "-0");
  row.end();
  EXPECT_EQ(row.step({1, 2}), "0 1|2| / 0 2|1|");
  EXPECT_EQ(row.scheduler().order_deviations(), 0);
}

TEST(Prefetch, UnitsRecomputedTogetherStayWholeForTheirBackward) {
  Row row(4, ahead(0, 0));
  row.begin();
  row.on(Hook::before_forward, 0);
  for (const int unit : {1, 2, 3}) row.run(unit);
  row.on(Hook::after_forward, 0);
  EXPECT_EQ(row.on(Hook::before_backward, 0), "0");
  EXPECT_EQ(row.run(2), "2");
  EXPECT_EQ(row.run(3), "3");
  EXPECT_EQ(row.on(Hook::before_backward, 3), "");
  EXPECT_EQ(row.on(Hook::after_backward, 3), "-3");
  EXPECT_EQ(row.back(2), "");
  EXPECT_EQ(row.back(1), "1");
  row.on(Hook::after_backward, 0);
  row.end();
}

TEST(Prefetch, AUnitWhoseBackwardIsOverIsNotGatheredAhead) {
  Row row(4, ahead(0, 1));
  row.begin();
  row.on(Hook::before_forward, 0);
  for (const int unit : {1, 2, 3}) row.run(unit);
  row.on(Hook::after_forward, 0);
  row.on(Hook::before_backward, 0);
  EXPECT_EQ(row.back(1), "1");
  EXPECT_EQ(row.back(3), "2");
  EXPECT_EQ(row.back(2), "");
  row.on(Hook::after_backward, 0);
  row.end();
  EXPECT_EQ(row.scheduler().prefetches_unused(), 0);
}

TEST(Prefetch, AUnitInsideItselfIsFreedByItsOuterRun) {
  Row row(2, ahead(1, 1));
  row.begin();
  EXPECT_EQ(row.on(Hook::before_forward, 1), "1");
  EXPECT_EQ(row.on(Hook::before_forward, 1), "");
  EXPECT_EQ(row.on(Hook::after_forward, 1), "");
  EXPECT_EQ(row.on(Hook::after_forward, 1), "-1");
  EXPECT_EQ(row.on(Hook::before_backward, 1), "1");
  EXPECT_EQ(row.on(Hook::before_backward, 1), "");
  EXPECT_EQ(row.on(Hook::after_backward, 1), "");
  EXPECT_EQ(row.on(Hook::after_backward, 1), "-1");
  row.end();
}

TEST(Overlap, AGradientInFlightIsWaitedForBeforeItsMemoryIsUsedAgain) {
  Step step = Row::row(2, ahead(0, 0), 2);
  step.overlap = true;
  Row row(step);
  row.begin();
  for (int run = 0; run < 2; ++run) {  // bare hooks: no root around, whose end would wait
    row.run(1);
    row.back(1);
  }
  row.on(Hook::begin_micro_batch);
  row.run(1);
  row.back(1);
  row.end();
}

TEST(Prefetch, AUnitThatRunsTwiceHasTwoPlaces) {
  Row row(3, ahead(1, 1));
  EXPECT_EQ(row.step({1, 2, 1}), "0 1|2||1 2 / 0 1|2|1|");
  EXPECT_EQ(row.step({1, 2, 1}), "0 1|2|1| / 0 1|2|1|");
}

TEST(Prefetch, AShrunkUnitIsGatheredAheadOverItsPartialCopies) {
  Row row(3, {.after_forward = AfterForward::shrink(2)});
  row.begin();
  row.on(Hook::before_forward, 0);
  row.run(1);
  row.run(2);
  row.on(Hook::after_forward, 0);
  std::vector<Op> gathers;
  for (const Op& op : row.scheduler().on(Hook::before_backward, 0))
    if (op.kind == OpKind::gather) gathers.push_back(op);
  ASSERT_EQ(gathers.size(), 2U);
  for (const Op& op : gathers) EXPECT_TRUE(op.from_partial && op.ranks == 2 && op.bytes == 512);
}

TEST(Prefetch, KeptUnitsStayWholeBetweenMicroBatchesAndTheLastOneFreesThem) {
  Decision kept = ahead(1, 1);
  kept.after_forward = AfterForward::keep();
  kept.after_backward = AfterBackward::keep;
  Row row(2, kept, 2);
  row.begin();
  EXPECT_EQ(row.on(Hook::before_forward, 0), "0 1");
  row.run(1);
  row.on(Hook::after_forward, 0);
  row.on(Hook::before_backward, 0);
  EXPECT_EQ(row.back(1), "");
  EXPECT_EQ(row.on(Hook::after_backward, 0), "");
  row.on(Hook::begin_micro_batch);
  EXPECT_EQ(row.on(Hook::before_forward, 0), "");
  EXPECT_EQ(row.run(1), "");
  row.on(Hook::after_forward, 0);
  row.on(Hook::before_backward, 0);
  row.on(Hook::before_backward, 1);
  EXPECT_EQ(row.on(Hook::after_backward, 1), "-1");
  EXPECT_EQ(row.on(Hook::after_backward, 0), "-0");
  row.end();
}

TEST(Prefetch, AForwardOnlyPassLeavesKeptUnitsWholeForTheNextStep) {
  Step step = Row::row(3, ahead(1, 1));
  step.units[0].decision.after_forward = AfterForward::keep();
  step.units[2].decision.after_forward = AfterForward::shrink(2);
  Row row(step);
  row.on(Hook::begin_evaluation);
  EXPECT_EQ(row.on(Hook::before_forward, 0), "0 1");
  EXPECT_EQ(row.run(1), "2");
  EXPECT_EQ(row.run(2), "");
  EXPECT_EQ(row.on(Hook::after_forward, 0), "");
  EXPECT_EQ(row.on(Hook::end_evaluation), "");
  EXPECT_EQ(row.on(Hook::before_read, 0), "");
  EXPECT_EQ(row.on(Hook::after_read, 0), "");
  EXPECT_EQ(row.on(Hook::before_read, 1), "1");
  EXPECT_EQ(row.on(Hook::after_read, 1), "-1");
  EXPECT_EQ(row.step({1, 2}), "1|2| / 2|1|");
  EXPECT_EQ(row.step({1, 2}), "0 1|2| / 2|1|");
  row.on(Hook::begin_evaluation);
  row.run(0);
  row.on(Hook::end_evaluation);
  EXPECT_EQ(row.on(Hook::release), "-0");
}

// Unit 2 is frozen or in no loss: its backward never comes, and unit 1's recompute runs it.
TEST(Recompute, WhatItGathersAndNoBackwardFreesGoesWhenTheRootsBackwardEnds) {
  for (const AfterBackward after : {AfterBackward::free, AfterBackward::keep}) {
    Decision decision = ahead(0, 0);
    decision.after_backward = after;
    Row row(3, decision, 2);
    row.begin();
    row.on(Hook::before_forward, 0);
    row.run(1);
    row.run(2);
    row.on(Hook::after_forward, 0);
    row.on(Hook::before_backward, 0);
    row.on(Hook::before_backward, 1);
    EXPECT_EQ(row.run(2), "2");
    EXPECT_EQ(row.run(2), "") << "once for all runs";
    EXPECT_EQ(row.on(Hook::after_backward, 1), after == AfterBackward::free ? "-1" : "");
    EXPECT_EQ(row.on(Hook::after_backward, 0), after == AfterBackward::free ? "-0 -2" : "-2");
    row.on(Hook::begin_micro_batch);
    row.end();
  }
}

// A unit that its own backward keeps is not mistaken for one that only the recompute gathered.
TEST(Recompute, AUnitWhoseBackwardCameIsFreedOrKeptByItsPlan) {
  Decision decision = ahead(0, 0);
  decision.after_backward = AfterBackward::keep;
  Row row(2, decision, 2);
  row.begin();
  row.on(Hook::before_forward, 0);
  row.run(1);
  row.on(Hook::after_forward, 0);
  row.on(Hook::before_backward, 0);
  EXPECT_EQ(row.run(1), "1");
  EXPECT_EQ(row.back(1), "");
  EXPECT_EQ(row.on(Hook::after_backward, 0), "");
  EXPECT_EQ(row.on(Hook::begin_micro_batch), "");
  EXPECT_EQ(row.run(1), "") << "still whole";
  row.on(Hook::abandon);
}

TEST(MicroBatch, FreesWhatNoBackwardCameFor) {
  Step step = Row::row(4, ahead(0, 0), 2);
  step.units[1].decision.after_forward = AfterForward::keep();
  step.units[2].decision.after_forward = AfterForward::shrink(2);
  step.units[3].decision.after_forward = AfterForward::keep();
  step.units[3].decision.after_backward = AfterBackward::keep;
  Row row(step);
  row.begin();
  for (int unit = 0; unit < 4; ++unit) row.run(unit);
  EXPECT_EQ(row.on(Hook::begin_micro_batch), "-1") << "and 2's partial copy, which the verifier checks";
  for (int unit = 1; unit < 4; ++unit) row.run(unit);
  EXPECT_EQ(row.on(Hook::reduce), "-1 -3");
  row.end();
}

}  // namespace
}  // namespace reshard::schedule
