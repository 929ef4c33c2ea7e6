// What a step of many micro-batches adds up to, driven in part, is what it adds up to driven as a whole: traffic, peak,
// and the moment of the peak, whatever the model and the decisions.

#include <gtest/gtest.h>

#include "schedule/declared.h"
#include "tests/schedule/random_program.h"

namespace reshard::schedule {
namespace {

Totals driven_as_a_whole(const Model& model, const Step& step, const BytesByCategory& resident) {
  Totals totals(resident);
  Scheduler scheduler(step);
  declared_step(model, scheduler, [&](Hook hook, int unit, std::span<const Op> ops) {
    totals.apply(hook, unit, scheduler.micro_batch(), ops);
  });
  return totals;
}

void expect_same(const Model& model, const Step& step) {
  const BytesByCategory resident{100, 0, 0, 0, 200, 3};
  const Totals whole = driven_as_a_whole(model, step, resident), part = declared_totals(model, step, resident);
  EXPECT_EQ(part.traffic().gather, whole.traffic().gather);
  EXPECT_EQ(part.traffic().shrink, whole.traffic().shrink);
  EXPECT_EQ(part.traffic().reduce, whole.traffic().reduce);
  EXPECT_EQ(part.traffic().all_reduce, whole.traffic().all_reduce);
  EXPECT_EQ(part.now(), whole.now());
  const MemoryPeak wanted = whole.peak(model), peak = part.peak(model);
  EXPECT_EQ(peak.bytes, wanted.bytes);
  EXPECT_EQ(peak.unit, wanted.unit);
  EXPECT_EQ(peak.moment, wanted.moment);
}

TEST(Declared, ManyMicroBatchesAddUpAsIfEachWereDriven) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Dice dice(seed);
    const Model model = random_model(dice, 12, 2000);
    Step step = random_step(dice, model);
    for (const int microbatches : {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 30}) {
      SCOPED_TRACE(std::to_string(microbatches) + " micro-batches");
      step.microbatches = microbatches;
      expect_same(model, step);
      if (HasFailure()) return;
    }
  }
}

// The time of a step does not grow with its micro-batches; what it moves does.
TEST(Declared, AMillionMicroBatches) {
  Model model({.name = "root"});
  for (int u = 0; u < 100; ++u)
    model.add({.name = std::to_string(u), .parameters = {{"p" + std::to_string(u), {640}}}});
  const auto traffic = [&](int microbatches) {
    return declared_totals(model, plain_step(model, 4, 1, microbatches, {}), {}).traffic();
  };
  EXPECT_EQ(traffic(1000000).gather.count, traffic(1).gather.count * 1000000);
  EXPECT_EQ(traffic(1000000).reduce.bytes, traffic(1).reduce.bytes * 1000000);
}

}  // namespace
}  // namespace reshard::schedule
