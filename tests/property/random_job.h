#pragma once

// Random jobs for the toy: any mesh, any micro-batches, and the user's word over a random part of the decisions.

#include <string>
#include <vector>

#include "base/math.h"
#include "tests/engine/toy.h"
#include "tests/schedule/random_program.h"

namespace reshard::property {

using schedule::Dice;

// `shards` 0: they depend on the strategy, so no number of ranks to shrink to is sure to divide them.
inline UnitOverride random_override(Dice& dice, const std::string& unit, int shards, double each) {
  UnitOverride entry;
  entry.match = unit;
  std::vector<AfterForward> after{AfterForward::free(), AfterForward::keep()};
  if (shards > 0)
    for (const int k : base::divisors(shards)) after.push_back(AfterForward::shrink(k));
  const auto word = [&](auto value) { return Given<decltype(value)>{value, "test", {}}; };
  if (dice.chance(each))
    entry.after_forward = word(after[static_cast<std::size_t>(dice.roll(0, static_cast<int>(after.size()) - 1))]);
  if (dice.chance(each)) entry.after_backward = word(dice.pick({AfterBackward::free, AfterBackward::keep}));
  if (dice.chance(each)) entry.reduce = word(dice.pick({Reduce::each, Reduce::last}));
  if (dice.chance(each)) entry.prefetch_forward = word(dice.roll(0, 3));
  if (dice.chance(each)) entry.prefetch_backward = word(dice.roll(0, 3));
  if (dice.chance(each / 4)) entry.param_dtype = word(dice.pick({Dtype::fp32, Dtype::bf16}));
  return entry;
}

// `each`: how probable it is that the user decides a value.
inline Job random_job(Dice& dice, const Model& model, int ranks, const std::string& strategy, double each) {
  Job job = toy::job(ranks, strategy, dice.roll(1, 4), dice.chance(0.5));
  const std::vector<int> divisors = base::divisors(ranks);
  if (dice.chance(each))
    job.strategy.shard_over = divisors[static_cast<std::size_t>(dice.roll(0, static_cast<int>(divisors.size()) - 1))];
  const int shards = job.strategy.shard_over.value_or(0) > 0 ? *job.strategy.shard_over : ranks;
  if (shards % job.mesh.ranks_per_node != 0) job.mesh.ranks_per_node = 0;
  job.precision.param_dtype = dice.pick({"fp32", "fp32", "bf16"});
  job.precision.reduce_dtype = dice.pick({"fp32", "fp32", "bf16"});
  job.train.divisor = dice.pick({"ranks", "ranks", "none"});
  if (dice.chance(each)) job.strategy.all_reduce = dice.pick({AllReduce::each, AllReduce::last});
  for (int u = 0; u < model.unit_count(); ++u)
    job.strategy.units.push_back(random_override(dice, model.name({u}), job.strategy.shard_over.value_or(0), each));
  return job;
}

}  // namespace reshard::property
