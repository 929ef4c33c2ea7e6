// Property: whatever the units, the decisions, the mesh, the micro-batches and the overlap are, training leaves the
// very bits that a plain computation in one process leaves, in the order of adding that the decisions imply. And the
// measured peak is the predicted one, to the byte, and nothing is taken from the system after the second step. Method:
// random models and decisions from a seed, which a failure prints.

#include <gtest/gtest.h>

#include "engine/planning.h"
#include "tests/engine/reference.h"
#include "tests/property/player.h"
#include "tests/property/random_job.h"

namespace reshard::property {
namespace {

struct Result {
  std::vector<StepResult> steps;
  toy::Values values;
  Report report;
  int64_t system_allocations_after_two = 0;
};

Result train(const Job& job, const Model& model, const HookCalls& calls, int steps) {
  Result result;
  launch(job, [&](Rank& rank) {
    Runtime runtime(job, model, rank);
    toy::fill(runtime);
    Result mine;
    for (int s = 0; s < steps; ++s) {
      mine.steps.push_back(Player(runtime, nullptr, calls, Style::closures).step(true).value());
      if (s == 1) mine.system_allocations_after_two = runtime.report().system_allocations;
    }
    mine.report = runtime.report();
    mine.values = toy::read_all(runtime);
    if (rank.first()) result = std::move(mine);
  });
  return result;
}

class Bits : public testing::TestWithParam<int> {};

TEST_P(Bits, TrainingEqualsOneProcess) {
  Dice dice(static_cast<uint64_t>(GetParam()));
  const Model model = schedule::random_model(dice, GetParam() % 10 == 0 ? 40 : 8, 300);
  const Job job = random_job(dice, model, dice.roll(1, 4), "zero3", 1.0);
  const engine::PlannedStrategy planned = engine::plan_strategy(job, model, engine::chosen_strategy(job), 2);
  SCOPED_TRACE(testing::Message() << "seed " << GetParam() << ", ranks " << planned.plan.ranks << ", shards "
                                  << planned.plan.shards << ", micro-batches " << job.train.microbatches << ", units "
                                  << model.unit_count());

  const int steps = 3;
  const HookCalls calls = schedule::declared_calls(model, engine::make_step(job, model, planned.plan));
  const Result result = train(job, model, calls, steps);
  toy::Reference reference(job, model);
  for (int s = 0; s < steps; ++s) {
    const auto [norm, loss] = reference.step(s, planned.plan, calls);
    EXPECT_EQ(result.steps[static_cast<std::size_t>(s)].gradient_norm, norm);
    EXPECT_EQ(result.steps[static_cast<std::size_t>(s)].loss, loss);
  }
  for (const auto& [name, values] : reference.values) ASSERT_EQ(result.values.at(name), values) << name;

  EXPECT_EQ(result.report.measured.bytes, planned.peak.bytes);
  EXPECT_EQ(result.report.measured.total(), planned.peak.total());
  EXPECT_EQ(result.report.measured.unit, planned.peak.unit);
  EXPECT_EQ(result.report.measured.moment, planned.peak.moment);
  EXPECT_EQ(result.report.traffic.gather.bytes, planned.traffic.gather.bytes * steps);
  EXPECT_EQ(result.report.traffic.reduce.bytes, planned.traffic.reduce.bytes * steps);
  EXPECT_EQ(result.report.traffic.all_reduce.bytes, planned.traffic.all_reduce.bytes * steps);
  EXPECT_EQ(result.report.system_allocations, result.system_allocations_after_two);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Bits, testing::Range(0, 120));

}  // namespace
}  // namespace reshard::property
