#pragma once

// Where a strategy's answers go: the host's side of reshard_plan. Every answer is checked as it arrives; the first bad
// one is kept, so that a strategy cannot swallow the refusal. Threads: one, inside one decide call.

#include <reshard/plugin.h>

#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "strategy/problem.h"

namespace reshard::plugin {

// The problem as the C table has it; points into the Problem, which must outlive it and not change.
class ProblemTable {
 public:
  explicit ProblemTable(const Problem& problem);
  ProblemTable(const ProblemTable&) = delete;
  ProblemTable& operator=(const ProblemTable&) = delete;
  const reshard_problem* raw() const { return &raw_; }

 private:
  std::vector<reshard_unit> units_;
  reshard_problem raw_;
};

class AnswerSink {
 public:
  explicit AnswerSink(const Problem& problem);
  AnswerSink(const AnswerSink&) = delete;
  AnswerSink& operator=(const AnswerSink&) = delete;

  const reshard_plan* table() const { return &table_; }

  // Throws what Problem::predicted_peak threw, if it did.
  void rethrow() const;
  // The first answer that was refused and why: "answered for unit 7; the problem has 3 units"; empty when none was.
  const std::string& refused() const { return refused_; }
  Answers take();

 private:
  struct Table;
  int32_t refuse(const std::string& what, reshard_error* error);
  int32_t set_unit(uint32_t unit, const reshard_decision* decision, reshard_text reason, reshard_error* error);
  int32_t set_shard_over(uint32_t ranks, reshard_text reason, reshard_error* error);
  int32_t set_all_reduce(uint32_t when, reshard_text reason, reshard_error* error);
  int32_t clear(uint32_t unit, reshard_error* error);
  int32_t predicted_peak(int64_t* bytes, reshard_error* error);
  Answers answers() const;

  const Problem& problem_;
  std::vector<std::optional<UnitAnswer>> units_;
  std::optional<int> shard_over_;
  std::optional<AllReduce> all_reduce_;
  std::string shard_over_reason_, all_reduce_reason_;
  std::string refused_;
  std::exception_ptr host_failure_;
  reshard_plan table_;
};

}  // namespace reshard::plugin
