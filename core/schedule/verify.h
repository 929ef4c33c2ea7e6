#pragma once

// Runs a stream of ops symbolically and says whether it is legal: no bytes, only what lies where, who uses it, and
// which gradients a sum contains. It knows what each op means (op.h) and what the program does at each hook, and
// nothing of how the scheduler arrives at its ops; so it finds the scheduler's mistakes. Not for use by two threads at
// once.
//
// The rules, each of which an error names:
//   copies     whatever is computed on or read is whole, its gather waited for; nothing is freed or shrunk while in use
//              or in flight; a gather over partial copies finds them; nothing that the plan frees outlives its
//              micro-batch, whether its backward came or not; after `update` nothing is whole
//   memory     every allocate has one release of the same bytes; after a step, `release` and `abandon` nothing is live
//              but what is carried over
//   gradients  each run's gradient is in the reduced shard exactly once, in the order of the runs, summed over all
//              ranks, divided once after the last addition; then what earlier steps carried over is added; no gradient
//              is dropped, except by `abandon`, `skip` and `drop_carried`
//   traffic    every op's ranks and bytes are those of the mesh and the unit

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "schedule/hook.h"
#include "schedule/op.h"
#include "schedule/scheduler.h"
#include "schedule/totals.h"

namespace reshard::schedule {

class Verifier {
 public:
  explicit Verifier(const Step& step);

  // The ops that one hook caused. Throws Error(plan) with the op's place in the stream, its name, the unit, the hook
  // and the rule: `op 17 "free", unit 3, hook "after forward": a unit in use is not freed`. Of no use after a throw.
  void apply(Hook hook, int unit, std::span<const Op> ops);

  // Live now and at the peak, beside what is resident; by the units' own sizes, not by what the ops say.
  const BytesByCategory& live() const { return live_; }
  int64_t peak_bytes() const { return peak_; }
  int64_t ops() const { return index_; }

 private:
  enum class Copy : uint8_t {
    none,
    raw,
    gathering,
    whole
  };  // what the whole buffer holds; raw: allocated, not gathered

  // What a gradient memory contains: the gradients of these backward runs, each summed over `ranks` ranks.
  struct Sum {
    std::vector<int> runs;
    int ranks = 1;
    bool divided = false;
    bool spent = false;    // added into another sum: must not be used again
    bool carried = false;  // what earlier steps carried over is in it
  };
  struct UnitState {
    std::array<int64_t, kUnitBuffers> bytes{};  // live, by UnitBuffer
    Copy copy = Copy::none;
    bool from_partial = false;   // the gather in flight reads the partial copy
    bool partial_valid = false;  // the partial buffer holds this rank's slice
    bool master_gathering = false, master_whole = false;
    int forwards = 0, backwards = 0, reads = 0;
    Sum gradient, accumulator, shard, scratch, carried;
    std::vector<int> runs;  // this step's finished backward runs: what the shard must contain in the end
    int64_t& live(UnitBuffer buffer) { return bytes[static_cast<std::size_t>(buffer)]; }
    int64_t live(UnitBuffer buffer) const { return bytes[static_cast<std::size_t>(buffer)]; }
    bool in_use() const { return forwards + backwards + reads > 0; }
  };

  void begin(Hook hook, int unit);
  void end();
  void apply(const Op& op);
  void compute(const Op& op);
  void allocate(const Op& op);
  void release(const Op& op);
  void check_release(const Op& op);
  void gather(const Op& op);
  void wait_gather(const Op& op);
  void shrink(const Op& op);
  void free(const Op& op);
  void reduce(const Op& op);
  void all_reduce(const Op& op);
  Sum& all_reduce_input(const Op& op);
  void add_or_put(Sum& target, const Sum& value, bool add);
  void divide(Sum& sum);
  void launch(int unit);
  void accumulate(const Op& op);
  void cast(const Op& op);
  Sum* sum(int unit, UnitBuffer buffer);
  void wait_reduce(const Op& op);
  void adopt(const Op& op);
  void scale(const Op& op);
  void update(const Op& op);

  void check_reduced(int unit);
  void check_nothing_live(int unit);
  void check_kept_only(int unit);
  void check_usable(int unit);
  void check_micro_batch_over(int unit, bool last);

  int64_t size(int unit, UnitBuffer buffer) const;
  void change(int unit, UnitBuffer buffer, int64_t bytes);
  UnitState& state(int unit) { return states_[static_cast<std::size_t>(unit)]; }
  const ScheduledUnit& spec(int unit) const { return step_.units[static_cast<std::size_t>(unit)]; }
  bool owns(int unit) const { return spec(unit).shard_bytes > 0; }
  bool moves(int unit) const { return owns(unit) && (step_.shards > 1 || spec(unit).casts); }
  bool trains(int unit) const { return spec(unit).gradient_bytes > 0; }
  int unit_count() const { return static_cast<int>(states_.size()); }
  void rule(bool holds, const char* text) const;
  [[noreturn]] void fail(const char* text) const;

  const Step step_;
  std::vector<UnitState> states_;
  int64_t index_ = 0;       // of the present op, from 0
  const Op* op_ = nullptr;  // the present op; null at the hook's end
  int checked_unit_ = -1;   // the unit that is looked at at the hook's end
  Hook hook_ = Hook::begin_step;
  int hook_unit_ = -1;
  int marks_ = 0;       // the ops by which this hook's computation begins or ends; exactly one where it does
  int in_flight_ = -1;  // the unit whose reduce or all-reduce is launched and not waited for
  int begun_ = 0;       // micro-batches of this step
  int next_run_ = 0;    // backward runs of this step, numbered in the order in which they finish
  bool in_step_ = false, updated_ = false;
  BytesByCategory live_{};
  int64_t live_sum_ = 0, peak_ = 0;
};

}  // namespace reshard::schedule
