#include "cli/compare_verdict.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "cli/run_record.h"

namespace reshard::cli {
namespace {

Traffic per_step(const Traffic& sum, int64_t steps) {
  const auto count = static_cast<double>(steps);
  return {sum.count / steps, sum.bytes / steps, sum.seconds / count, sum.seconds_exposed / count};
}

TrafficByOp per_step(const TrafficByOp& sum, int64_t steps) {
  TrafficByOp mean;
  mean.gather = per_step(sum.gather, steps);
  mean.shrink = per_step(sum.shrink, steps);
  mean.reduce = per_step(sum.reduce, steps);
  mean.all_reduce = per_step(sum.all_reduce, steps);
  return mean;
}

double block_median(const Measured& measured, int arm, int block) {
  std::vector<double> seconds;
  for (const TurnStep& step : measured.steps)
    if (step.timed && step.arm == arm && step.block == block) seconds.push_back(step.seconds);
  return median(std::move(seconds));
}

void judge_time(const Measured& measured, int index, int blocks, ArmResult& arm) {
  for (const TurnStep& step : measured.steps)
    if (step.timed && step.arm == index) arm.seconds.push_back(step.seconds);
  arm.median_seconds = median(arm.seconds);
  std::vector<double> exposed;
  for (const TurnStep& step : measured.steps)
    if (step.timed && step.arm == index) exposed.push_back(step.seconds_exposed);
  arm.seconds_exposed = median(std::move(exposed));
  std::vector<double> ratios;
  for (int block = 0; block < blocks; ++block) {  // that this arm and the first one have finished
    const double first = block_median(measured, 0, block);
    ratios.push_back(first > 0 ? block_median(measured, index, block) / first : 1);
  }
  arm.ratio = median(ratios);
  arm.ratio_low = *std::min_element(ratios.begin(), ratios.end());
  arm.ratio_high = *std::max_element(ratios.begin(), ratios.end());
}

double relative_difference(double value, double reference) {
  const double scale = std::fabs(reference);
  return std::fabs(value - reference) / (scale > 0 ? scale : 1);
}

// A promised arm is judged by its steps before any other had changed the state; an unpromised one by all of its own.
void judge_bits(const Reference& reference, const Measured& measured, Comparison& comparison) {
  std::string changed_by;
  for (ArmResult& arm : comparison.arms) arm.identical = arm.blocks > 0;
  for (std::size_t s = 0; s < measured.steps.size(); ++s) {
    const TurnStep& step = measured.steps[s];
    ArmResult& arm = comparison.arms[static_cast<std::size_t>(step.arm)];
    if (arm.promised && !changed_by.empty()) {
      arm.differs_since = changed_by;
      ++arm.steps_after;
      continue;
    }
    if (!arm.promised && changed_by.empty()) changed_by = arm.name;
    ++arm.steps_compared;
    const bool same = std::bit_cast<uint64_t>(step.loss) == std::bit_cast<uint64_t>(reference.losses[s]);
    arm.identical = arm.identical && same;
    arm.largest_difference = std::max(arm.largest_difference, relative_difference(step.loss, reference.losses[s]));
  }
}

}  // namespace

void judge(const Reference& reference, const Measured& measured, Comparison& comparison) {
  for (std::size_t i = 0; i < comparison.arms.size(); ++i) {
    ArmResult& arm = comparison.arms[i];
    const ArmMeasured& of_arm = measured.arms[i];
    arm.blocks = of_arm.blocks;
    if (arm.blocks == 0) continue;
    judge_time(measured, static_cast<int>(i), std::min(arm.blocks, measured.arms.front().blocks), arm);
    arm.measured = of_arm.peak;
    arm.replans = of_arm.replans;
    if (arm.replans > 0 && arm.measured.total() > 0) arm.predicted = of_arm.predicted;
    if (!of_arm.adds_alike) arm.promised = false, arm.promise = "it has decided anew how gradients are added";
    arm.traffic = per_step(of_arm.traffic, int64_t{arm.blocks} * (comparison.block_steps - 1));
  }
  comparison.steps_done = static_cast<int64_t>(measured.steps.size());
  judge_bits(reference, measured, comparison);
  comparison.parameters_promised =
      std::all_of(comparison.arms.begin(), comparison.arms.end(), [](const ArmResult& a) { return a.promised; });
  comparison.parameters_identical = measured.parameters_identical && !comparison.stopped();
  comparison.largest_difference = measured.largest_difference;
  comparison.differing_parameter = measured.differing_parameter;
}

}  // namespace reshard::cli
