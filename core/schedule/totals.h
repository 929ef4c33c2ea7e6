#pragma once

// What a stream of ops adds up to: traffic by kind, and memory by category with the peak, its unit and its moment. Pure
// integers; the pool measures the same independently (memory/pool.h), so the two can be compared.

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "reshard/model.h"
#include "reshard/report.h"
#include "schedule/hook.h"
#include "schedule/op.h"

namespace reshard::schedule {

using BytesByCategory = std::array<int64_t, kMemoryCategories>;

class Totals {
 public:
  // `resident`: what is live all the time: shards, optimizer state, the program's own scratch.
  explicit Totals(const BytesByCategory& resident) : now_(resident), peak_(resident) {}

  // `micro_batch`: -1 outside of one.
  void apply(Hook hook, int unit, int micro_batch, std::span<const Op> ops);

  // What was applied since the traffic was `before` comes `times` more: its traffic is counted so often. Bytes are not:
  // the last time peaks no higher than the first.
  void repeat(const TrafficByOp& before, int64_t times);

  const TrafficByOp& traffic() const { return traffic_; }
  const BytesByCategory& now() const { return now_; }
  int64_t peak_bytes() const { return sum(peak_); }
  MemoryPeak peak(const Model& model) const;  // with the names of unit and moment
  void take_peak(const Totals& other);        // where it is higher

 private:
  static int64_t sum(const BytesByCategory& bytes);
  void add(MemoryCategory category, int64_t bytes);

  BytesByCategory now_, peak_;
  bool peak_counted_ = false;  // some op went above what is resident
  Hook peak_hook_ = Hook::begin_step, hook_ = Hook::begin_step;
  int peak_unit_ = -1, unit_ = -1;
  int peak_micro_batch_ = -1, micro_batch_ = -1;
  TrafficByOp traffic_;
};

// "before backward, micro-batch 1"; micro_batch -1: the hook alone.
std::string moment_text(Hook hook, int micro_batch);

}  // namespace reshard::schedule
