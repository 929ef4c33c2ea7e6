#pragma once

// The waist of the hourglass: hooks in, ops out. Pure integers: no device, no clock, no threads, no rank's number;
// every rank that feeds the same hooks gets the same ops. Not for use by two threads at once. After the first step of a
// program whose order does not change, a call allocates nothing.
//
// What it guarantees, whatever the decisions are: a unit that is used is whole; a unit in use is not freed; each
// micro-batch's gradient is reduced once; after `update` nothing is whole.
//
// [Note: order of prefetching] Forward order = the declared order until a step is recorded, then the last recorded one.
// Backward order = the reverse of an after_forward order: this micro-batch's, unless BackwardOrder adds earlier
// passes'. A distance counts places in the order, whole units included. A recompute (a forward hook inside somebody's
// backward) neither frees nor enters the order; what it gathered and no backward freed is freed when the root's
// backward ends. What no backward came for at all is freed with its micro-batch, as if its backward had been.
//
// [Note: micro-batches in flight] begin_micro_batch takes one after the other: those before are over. A program with
// several in flight (pipeline stages) enters them by number instead, in any order and as often as it likes. A unit's
// gradients are complete, and its last reduce is due, when every micro-batch of the step has begun and every one that
// is not over has run the unit's backward as often as its forward.
//
// [Note: units that may be unused] A declared run of such a unit that did not come when a later place of the declared
// pass comes is made up for: its ops come all the same, with nothing computed. So ranks that use it and ranks that do
// not run the same ops. made_up.h says what is made up when.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "reshard/decision.h"
#include "schedule/hook.h"
#include "schedule/made_up.h"
#include "schedule/op.h"

namespace reshard::schedule {

// One unit, as the scheduler sees it. Bytes are of one rank's shard, 1/shards of the whole, padding included.
struct ScheduledUnit {
  Decision decision{};           // k = 1 and k = shards are resolved to keep and free before
  int64_t shard_bytes = 0;       // parameters in fp32; 0: the unit owns nothing and makes no op
  int64_t copy_bytes = 0;        // parameters in the dtype that is gathered and computed in
  int64_t gradient_bytes = 0;    // gradients in that dtype, of the trainable parameters alone; 0: frozen
  int64_t reduced_bytes = 0;     // gradients in the dtype that they are added in
  bool casts = false;            // gathered in another dtype than fp32
  bool converts = false;         // gradients are added in another dtype than backward writes
  int64_t saved_bytes = 0;       // per run; not a shard's: the program's own
  bool read_in_backward = true;  // false: backward does without the parameters
  bool may_be_unused = false;    // see the note
};

struct Step {
  int shards = 1;    // ranks of a shard group
  int replicas = 1;  // ranks of a replica group
  int microbatches = 1;
  AllReduce all_reduce = AllReduce::each;
  BackwardOrder backward_order = BackwardOrder::micro_batch;
  bool overlap = false;        // reduces run beside compute: one in flight, waited for before the next is launched
  bool divide_at_end = false;  // the divisor is known only after the last backward
  std::vector<ScheduledUnit> units;           // the root first
  std::vector<int> forward_order;             // declared, repeats included
  std::vector<DeclaredPlace> declared_places;  // of one forward pass; read only where a unit may be unused
};

class Scheduler {
 public:
  // `recorded`: an order of before_forward that an earlier scheduler of the same model recorded; empty: none yet.
  explicit Scheduler(Step step, std::vector<int> recorded = {});

  // The ops that `hook` causes, in order; valid until the next call. `subject`: the unit of before_/after_ hooks, the
  // number of enter_micro_batch, else ignored. A hook at the wrong time is a programmer's error of the caller: throws
  // Error(model) naming the hook.
  std::span<const Op> on(Hook hook, int subject = -1);

  bool whole(int unit) const;                       // may be read now
  bool reads_master(int unit) const;                // between before_read and after_read: the fp32 values lie in `master`
  int micro_batch() const { return micro_batch_; }  // -1 outside of a step
  bool idle() const { return phase_ == Phase::idle; }            // neither in a step nor in a forward-only pass
  bool updated() const { return phase_ == Phase::updated; }      // the step waits for end_step only
  bool reducing() const { return phase_ == Phase::step; }  // the step's gradients are not all reduced yet
  bool carries() const;                             // gradients of earlier steps wait for an update
  int64_t prefetches_unused() const { return prefetches_unused_; }
  int64_t order_deviations() const { return order_deviations_; }  // steps with a micro-batch in another order than declared
  // The declared one until a step is recorded.
  const std::vector<int>& recorded_order() const { return forward_order_; }
  const Step& step() const { return step_; }

 private:
  enum class Phase : uint8_t { idle, step, reduced, updated, evaluation };
  enum class Residence : uint8_t { sharded, gathering, whole, partial };

  // A unit's runs in one micro-batch.
  struct Runs {
    int forward = 0, backward = 0;  // ended or begun
    int saved = 0;                  // whose activations wait for their backward
  };

  // The after_forward order of one pass or several.
  struct Left {
    std::vector<int> units;
    std::size_t ahead = 0;  // places that backward has not passed
    void clear() { units.clear(), ahead = 0; }
  };

  // A micro-batch of the running step, or the forward-only pass.
  struct Flight {
    bool begun = false, over = false;
    std::vector<Runs> runs;      // by unit
    std::vector<int> entered;    // the before_forward order
    Left left;                   // its own
    std::size_t forward_at = 0;  // the next place in forward_order_
    MadeUp made_up;              // used only where a unit may be unused
  };

  struct UnitState {
    Residence residence = Residence::sharded;
    bool gathering_from_partial = false;
    bool prefetched = false;     // gathered ahead, not used yet
    bool read_gathered = false;  // whole only because of before_read
    bool recomputed = false;     // whole only because of a recompute
    int reads = 0;               // before_read without its after_read
    bool reduced = false;        // its last reduce of this step is launched
    bool exchanged = false;      // its sum is over the replicas too
    bool divided = false;        // so is the divisor applied
    std::array<bool, kUnitBuffers> live{};
    int forwards = 0, backwards = 0;  // hooks open
    int outstanding = 0;              // forward runs of all micro-batches whose backward has not come
    int unfinished = 0;               // micro-batches of the step that are unfinished(), below
    bool in_use() const { return forwards + backwards > 0; }
  };

  // scheduler.cpp: the bounds of steps and passes
  void begin_step();
  void begin_micro_batch();
  void enter_micro_batch(int index);
  void begin_flight();
  void close(Flight& flight);
  void end_micro_batches();
  void reduce_rest();
  void finish_step(Hook hook);
  void end_step();
  void begin_evaluation();
  void end_evaluation();
  void before_read(int unit);
  void after_read(int unit);
  void release_all();
  void abandon();

  // scheduler_pass.cpp: a unit's forward and backward
  void before_forward(int unit);
  void after_forward(int unit);
  void before_backward(int unit);
  void after_backward(int unit);
  void leave_forward(int unit);
  bool kept_after_backward(int unit);
  bool complete(int unit);
  void count_run(int unit, int Runs::* run);
  void run_hook(Hook hook, int unit);
  void run_own_hook(Hook hook, int unit);
  void make_up_rest(Flight& flight);
  void make_up_rests();

  // scheduler_copies.cpp: gathering, freeing, prefetching
  void launch_gather(int unit);
  void make_whole(int unit);
  void free(int unit);
  void free_all();
  void prefetch_forward(int unit);
  void prefetch_backward(int unit);
  void prefetch(int unit);
  void drop_unused_prefetches();
  void shorten_passes();
  void drop_recomputed();

  // scheduler_reduce.cpp: gradients
  void reduce(int unit, bool last);
  void reduce_sharded(int unit, bool last);
  void reduce_unsharded(int unit, bool last);
  void accumulate(int unit, UnitBuffer source, UnitBuffer target);
  void all_reduce(int unit, bool add, bool from_scratch, bool last);
  void finish_in_flight();
  void finish_reductions();
  void finish_sum(int unit);
  void carry();
  void add_carried(int unit);

  Op op(OpKind kind, int unit, int64_t bytes = 0) const;
  void emit(const Op& op) { ops_.push_back(op); }
  void allocate(int unit, UnitBuffer buffer);
  void release(int unit, UnitBuffer buffer);
  int64_t bytes(int unit, UnitBuffer buffer) const;

  bool live(int unit, UnitBuffer buffer) const {
    return states_[static_cast<std::size_t>(unit)].live[static_cast<std::size_t>(buffer)];
  }
  bool last_micro_batch() const { return begun_ == step_.microbatches; }
  bool unit_open() const { return open_forwards_ + open_backwards_ > 0; }
  bool owns(int unit) const { return at(unit).shard_bytes > 0; }
  bool trains(int unit) const { return at(unit).gradient_bytes > 0; }
  bool moves(int unit) const { return owns(unit) && (step_.shards > 1 || at(unit).casts); }
  bool accumulates(int unit) const;
  const ScheduledUnit& at(int unit) const { return step_.units[static_cast<std::size_t>(unit)]; }
  UnitState& state(int unit) { return states_[static_cast<std::size_t>(unit)]; }
  int unit_count() const { return static_cast<int>(states_.size()); }
  Flight& flight() { return flights_[phase_ == Phase::evaluation ? flights_.size() - 1 : current()]; }
  std::size_t current() const { return static_cast<std::size_t>(micro_batch_); }
  Runs& runs(int unit) { return flight().runs[static_cast<std::size_t>(unit)]; }
  Left& left() { return step_.backward_order == BackwardOrder::micro_batch ? flight().left : passes_; }
  void clear(Flight& flight);
  // May run the unit's backward yet: it is not over, and the unit has not run, or not backward as often as forward.
  static bool unfinished(const Flight& flight, int unit) {
    const Runs& runs = flight.runs[static_cast<std::size_t>(unit)];
    return !flight.over && (runs.forward == 0 || runs.backward < runs.forward);
  }
  bool being_read() const;
  void require(bool fine, Hook hook, int unit, const char* why) const;
  void require_unit(Hook hook, int unit) const;

  Step step_;
  bool some_may_be_unused_ = false;
  DeclaredPass declared_;
  std::vector<UnitHook> missing_;  // what a hook is preceded by
  std::vector<UnitState> states_;
  std::vector<Flight> flights_;  // by micro-batch; the last one is the forward-only pass
  std::vector<Op> ops_;
  Phase phase_ = Phase::idle;
  int micro_batch_ = -1, begun_ = 0;
  std::vector<int> not_over_;        // micro-batches that have begun, in that order
  std::size_t first_not_begun_ = 0;  // all micro-batches before it have
  int open_forwards_ = 0, open_backwards_ = 0;

  std::vector<int> forward_order_;  // by which forward prefetches go
  Left passes_;                     // of several passes, where the order of prefetching counts them
  int in_flight_ = -1;              // the unit whose reduce has been launched and not waited for
  int64_t prefetches_unused_ = 0, order_deviations_ = 0;
};

}  // namespace reshard::schedule
