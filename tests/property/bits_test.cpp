// Property: whatever the units, the decisions, the mesh, the micro-batches and the overlap are, training leaves the
// very bits that a plain computation in one process leaves, in the order of adding that the decisions imply. And the
// measured peak is the predicted one, to the byte, and nothing is taken from the system after the second step. Method:
// random models and decisions from a seed, which a failure prints.

#include <mutex>
#include <random>

#include <gtest/gtest.h>

#include "engine/planning.h"
#include "tests/engine/toy.h"

namespace reshard {
namespace {

struct Result {
  std::vector<double> norms;
  toy::Values values;
  Report report;
  int64_t system_allocations_after_two = 0;
};

Result train(const Job& job, const Model& model, int steps) {
  Result result;
  launch(job, [&](Rank& rank) {
    Runtime runtime(job, model, rank);
    toy::fill(runtime);
    std::vector<double> norms;
    int64_t allocations = 0;
    for (int s = 0; s < steps; ++s) {
      norms.push_back(runtime.step([&](MicroBatch at) { return toy::Pass(runtime, at)(); }).gradient_norm);
      if (s == 1) allocations = runtime.report().system_allocations;
    }
    const Report report = runtime.report();
    toy::Values values = toy::read_all(runtime);
    if (rank.first()) result = {norms, std::move(values), report, allocations};
  });
  return result;
}

UnitOverride random_override(std::mt19937_64& random, const std::string& unit, int shards) {
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  UnitOverride entry;
  entry.match = unit;
  std::vector<AfterForward> after{AfterForward::free(), AfterForward::keep()};
  for (int k = 1; k <= shards; ++k)
    if (shards % k == 0) after.push_back(AfterForward::shrink(k));
  entry.after_forward =
      Given<AfterForward>{after[static_cast<std::size_t>(pick(0, static_cast<int>(after.size()) - 1))], "test", {}};
  entry.after_backward = Given<AfterBackward>{pick(0, 1) == 0 ? AfterBackward::free : AfterBackward::keep, "test", {}};
  entry.reduce = Given<Reduce>{pick(0, 1) == 0 ? Reduce::each : Reduce::last, "test", {}};
  entry.prefetch_forward = Given<int>{pick(0, 3), "test", {}};
  entry.prefetch_backward = Given<int>{pick(0, 3), "test", {}};
  return entry;
}

class Bits : public testing::TestWithParam<int> {};

TEST_P(Bits, TrainingEqualsOneProcess) {
  std::mt19937_64 random(static_cast<uint64_t>(GetParam()));
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  const int ranks = pick(1, 4);
  Job job = toy::job(ranks, "zero3", pick(1, 4), pick(0, 1) == 1);
  std::vector<int> divisors;
  for (int d = 1; d <= ranks; ++d)
    if (ranks % d == 0) divisors.push_back(d);
  job.strategy.shard_over = divisors[static_cast<std::size_t>(pick(0, static_cast<int>(divisors.size()) - 1))];
  job.strategy.all_reduce = pick(0, 1) == 0 ? AllReduce::each : AllReduce::last;
  const Model model = toy::random_model(random, GetParam() % 10 == 0 ? 40 : 8);
  for (int u = 0; u < model.unit_count(); ++u)
    job.strategy.units.push_back(random_override(random, model.name({u}), *job.strategy.shard_over));
  const engine::PlannedStrategy planned = engine::plan_strategy(job, model, engine::chosen_strategy(job), 2);
  SCOPED_TRACE(testing::Message() << "seed " << GetParam() << ", ranks " << ranks << ", shards " << planned.plan.shards
                                  << ", micro-batches " << job.train.microbatches << ", units " << model.unit_count());

  const int steps = 3;
  const Result result = train(job, model, steps);
  toy::Reference reference(job, model, planned.plan);
  for (int s = 0; s < steps; ++s) EXPECT_EQ(result.norms[static_cast<std::size_t>(s)], reference.step(s));
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
}  // namespace reshard
