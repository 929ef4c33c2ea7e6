#pragma once

// What a plan will cost and what a run did cost: plain values for tables, JSON and programs. One rank's view; bytes are
// bytes that this rank receives from others (gather: (n-1)/n of the unit's padded bytes; reduce the same; all-reduce twice that).

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace reshard {

// The ledger's categories, in the order of every table.
enum class MemoryCategory : uint8_t {
  sharded_parameters,
  whole_parameters,
  gradients,
  reduce_buffers,
  optimizer_state,
  activations,
};
inline constexpr int kMemoryCategories = 6;
const char* name(MemoryCategory category);  // "sharded parameters", …

struct MemoryPeak {
  std::array<int64_t, kMemoryCategories> bytes{};  // live at the moment of the total's peak
  std::string unit;                                // the unit being worked on then
  std::string moment;                              // "before backward, micro-batch 1"
  int64_t total() const {
    int64_t sum = 0;
    for (const int64_t b : bytes) sum += b;
    return sum;
  }
};

// What communication of one kind did.
struct Traffic {
  int64_t count = 0;
  int64_t bytes = 0;
  double seconds = 0;          // running
  double seconds_exposed = 0;  // compute waited
  bool operator==(const Traffic&) const = default;
  Traffic& operator+=(const Traffic& more) {
    count += more.count;
    bytes += more.bytes;
    seconds += more.seconds;
    seconds_exposed += more.seconds_exposed;
    return *this;
  }
};

struct TrafficByOp {
  Traffic gather, shrink, reduce, all_reduce, relay;  // shrink moves nothing; relay = re-laying after shard_over changed

  // What the steps themselves did: everything but re-laying.
  Traffic of_steps() const {
    Traffic sum;
    for (const Traffic& one : {gather, shrink, reduce, all_reduce}) sum += one;
    return sum;
  }
};

// A strategy that was told what a step showed has decided anew, and its plan was adopted between two steps.
struct Replan {
  int64_t steps_done = 0;
  std::string plan_hash;             // of the new plan
  std::vector<std::string> changes;  // "h.1: after_forward = keep: REASON", one per unit whose decision is another now
  int units_kept_before = 0, units_kept = 0;
  MemoryPeak predicted;        // of a declared step under the new plan
  MemoryPeak measured_before;  // on this rank, since the plan before it was adopted
  bool adds_alike = true;      // gradients are added at the same points in the same order as before
  bool relaid = false;         // shard_over changed: parameters and optimizer state were laid out anew
  double seconds = 0;
  std::vector<std::string> log;  // what the strategy warned of
};

struct Report {
  std::string strategy, strategy_version, strategy_file, plan_hash;
  int ranks = 1, shards = 1;
  int64_t steps = 0;             // optimizer steps finished
  int64_t steps_skipped = 0;     // of those: without an update, because loss or gradient were not finite
  int64_t steps_skipped_by_program = 0;  // of those: by skip(), which [train] stop_after_skipped does not count
  int64_t forward_only_passes = 0;
  int64_t prefetches_unused = 0;  // gathered ahead and dropped: the order had changed
  int64_t order_deviations = 0;   // steps with a micro-batch in another order than declared
  TrafficByOp traffic;            // of all steps and passes so far
  TrafficByOp traffic_declared;   // of one declared step of the present plan: what explain predicts
  MemoryPeak predicted, measured;
  std::vector<Replan> replans;        // in their order
  int64_t system_bytes = 0;           // taken from the operating system by the pool
  int64_t system_allocations = 0;     // how often; does not grow after the second step of a plan
};

}  // namespace reshard
