#pragma once

// Toy problems for strategies, and their answers as text.

#include <cstdint>
#include <string>
#include <utility>

#include "plugin/strategy.h"
#include "tests/plugin/files.h"

namespace reshard::tests {

// A root that encloses `blocks` units and a head.
inline Problem toy(int blocks = 3) {
  Problem problem;
  problem.ranks = 4, problem.ranks_per_node = 2, problem.microbatches = 2, problem.seed = 7;
  const auto add = [&](const std::string& name, int64_t bytes) {
    ProblemUnit unit;
    unit.name = name, unit.root = problem.units.empty(), unit.parent = unit.root ? -1 : 0;
    unit.bytes = unit.trainable_bytes = unit.gradient_bytes = bytes;
    problem.units.push_back(unit);
  };
  add("root", 4096);
  for (int i = 0; i < blocks; ++i) add("h." + std::to_string(i), 1024 * (i + 1));
  add("lm_head", 1 << 20);
  return problem;
}

// "root free/free/each 1 1: reason" per unit, the plan's own answers first.
inline std::string text(const Problem& problem, const Answers& answers) {
  std::string out;
  if (answers.shard_over)
    out += "shard_over " + std::to_string(*answers.shard_over) + ": " + answers.plan_reason + "\n";
  if (answers.all_reduce) out += std::string("all_reduce ") + value_text(*answers.all_reduce) + "\n";
  for (std::size_t i = 0; i < answers.units.size(); ++i) {
    const UnitAnswer& unit = answers.units[i];
    out += problem.units[i].name + " " + (unit.after_forward ? value_text(*unit.after_forward) : "-") + "/" +
           (unit.after_backward ? value_text(*unit.after_backward) : "-") + "/" +
           (unit.reduce ? value_text(*unit.reduce) : "-") + " " +
           (unit.prefetch_forward ? std::to_string(*unit.prefetch_forward) : "-") + " " +
           (unit.prefetch_backward ? std::to_string(*unit.prefetch_backward) : "-") + ": " + unit.reason + "\n";
  }
  return out;
}

inline std::string answers(const Problem& problem, const std::string& strategy, const OptionValues& options = {}) {
  return text(problem, plugin::Strategy::load(shipped(strategy)).create(options).decide(problem));
}

inline std::string decided(const std::string& name, const OptionValues& options, int blocks = 1) {
  return answers(toy(blocks), name, options);
}

inline OptionValue value(decltype(OptionValue::value) of, const std::string& where = "job.toml:9:1") {
  return {std::move(of), where};
}

}  // namespace reshard::tests
