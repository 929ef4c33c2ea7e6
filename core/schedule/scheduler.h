#pragma once

// The waist of the hourglass: hooks in, ops out. Pure integers: no device, no clock, no threads, no rank's number;
// every rank that feeds the same hooks gets the same ops. Not for use by two threads at once. After the first step of a
// program whose order does not change, a call allocates nothing.
//
// What it guarantees, whatever the decisions are: a unit that is used is whole; a unit in use is not freed; each
// micro-batch's gradient is reduced once; after `update` nothing is whole.
//
// [Note: order of prefetching] Forward order = the declared order until a step is recorded, then the last recorded one.
// Backward order = the reverse of this micro-batch's after_forward order. A distance counts places in the order, whole
// units included. A recompute (a forward hook inside somebody's backward) neither frees nor enters the order; what it
// gathered and no backward freed is freed when the root's backward ends. What no backward came for at all is freed with
// its micro-batch, as if its backward had been.

#include <cstdint>
#include <span>
#include <vector>

#include "reshard/decision.h"
#include "schedule/hook.h"
#include "schedule/op.h"

namespace reshard::schedule {

// One unit, as the scheduler sees it.
struct ScheduledUnit {
  Decision decision{};      // k = 1 and k = shards are resolved to keep and free before
  int64_t shard_bytes = 0;  // 0: the unit owns nothing and makes no op
  int64_t saved_bytes = 0;  // per run
  bool trainable = true;    // false: no gradient
};

struct Step {
  int shards = 1;    // ranks of a shard group
  int replicas = 1;  // ranks of a replica group
  int microbatches = 1;
  AllReduce all_reduce = AllReduce::each;
  bool overlap = false;  // reduces run beside compute: one in flight, waited for before the next is launched
  std::vector<ScheduledUnit> units;  // the root first
  std::vector<int> forward_order;    // declared, repeats included
};

class Scheduler {
 public:
  // `recorded`: an order of before_forward that an earlier scheduler of the same model recorded; empty: none yet.
  explicit Scheduler(Step step, std::vector<int> recorded = {});

  // The ops that `hook` causes, in order; valid until the next call. `unit` for before_/after_ hooks, else ignored.
  // A hook at the wrong time is a programmer's error of the caller: throws Error(model) naming the hook.
  std::span<const Op> on(Hook hook, int unit = -1);

  bool whole(int unit) const;                       // may be read now
  int micro_batch() const { return micro_batch_; }  // -1 outside of a step
  int64_t prefetches_unused() const { return prefetches_unused_; }
  int64_t order_deviations() const { return order_deviations_; }  // steps whose order was not the declared one
  const std::vector<int>& recorded_order() const {
    return forward_order_;
  }  // the declared one until a step is recorded
  const Step& step() const { return step_; }

 private:
  enum class Phase : uint8_t { idle, step, reduced, updated, evaluation };
  enum class Residence : uint8_t { sharded, gathering, whole, partial };

  struct UnitState {
    Residence residence = Residence::sharded;
    bool gathering_from_partial = false;
    bool prefetched = false;      // gathered ahead, not used yet
    bool read_gathered = false;   // whole only because of before_read
    bool recomputed = false;      // whole only because of a recompute
    int reads = 0;                // before_read without its after_read
    bool gradient = false;        // the gradient buffer is there
    bool gradient_shard = false;  // so is the shard's
    bool divided = false;         // the shard has been divided
    bool scratch = false;
    int forwards = 0, backwards = 0;          // hooks open
    int forward_runs = 0, backward_runs = 0;  // of this micro-batch
    int saved = 0;                            // runs whose activations wait for their backward
    bool in_use() const { return forwards + backwards > 0; }
  };

  void before_forward(int unit);
  void after_forward(int unit);
  void before_backward(int unit);
  void after_backward(int unit);
  void begin_step();
  void begin_micro_batch();
  void reduce_rest();
  void update();
  void end_step();
  void begin_evaluation();
  void end_evaluation();
  void before_read(int unit);
  void after_read(int unit);
  void release_all();
  void abandon();

  void launch_gather(int unit);
  void make_whole(int unit);
  void free(int unit);
  void free_all();
  void prefetch_forward(int unit);
  void prefetch_backward(int unit);
  void prefetch(int unit);
  void drop_unused_prefetches();
  void drop_recomputed();
  void end_micro_batch();
  void reduce(int unit, bool last);
  void reduce_sharded(int unit, bool last);
  void reduce_unsharded(int unit, bool last);
  void finish_in_flight();
  void complete(int unit);
  void finish_reductions();
  void drop_saved();

  Op op(OpKind kind, int unit, int64_t bytes = 0) const;
  void emit(const Op& op) { ops_.push_back(op); }
  void allocate(int unit, UnitBuffer buffer);
  void release(int unit, UnitBuffer buffer);
  int64_t bytes(int unit, UnitBuffer buffer) const;
  void all_reduce(int unit, bool add, bool from_scratch, bool divide);

  bool last_micro_batch() const { return micro_batch_ + 1 == step_.microbatches; }
  bool unit_open() const { return open_forwards_ + open_backwards_ > 0; }
  bool owns(int unit) const { return at(unit).shard_bytes > 0; }
  bool moves(int unit) const { return owns(unit) && step_.shards > 1; }
  const ScheduledUnit& at(int unit) const { return step_.units[static_cast<std::size_t>(unit)]; }
  UnitState& state(int unit) { return states_[static_cast<std::size_t>(unit)]; }
  int unit_count() const { return static_cast<int>(states_.size()); }
  bool being_read() const;
  void require(bool fine, Hook hook, int unit, const char* why) const;
  void require_unit(Hook hook, int unit) const;

  Step step_;
  std::vector<UnitState> states_;
  std::vector<Op> ops_;
  Phase phase_ = Phase::idle;
  int micro_batch_ = -1;
  int open_forwards_ = 0, open_backwards_ = 0;

  std::vector<int> forward_order_;  // by which forward prefetches go
  std::vector<int> entered_;        // this pass's before_forward order
  std::vector<int> left_;           // this micro-batch's after_forward order
  std::size_t forward_at_ = 0;      // the next place in forward_order_
  std::size_t backward_at_ = 0;     // places of left_ that backward has not passed
  int in_flight_ = -1;              // the unit whose reduce has been launched and not waited for
  int64_t prefetches_unused_ = 0, order_deviations_ = 0;
};

}  // namespace reshard::schedule
