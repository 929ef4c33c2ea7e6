// The bounds of steps, micro-batches and passes, and the making of ops. A unit's forward and backward stand in
// scheduler_pass.cpp, whole copies in scheduler_copies.cpp, gradients in scheduler_reduce.cpp.

#include "schedule/scheduler.h"

#include <algorithm>
#include <string>
#include <utility>

#include "reshard/error.h"

namespace reshard::schedule {

Scheduler::Scheduler(Step step, std::vector<int> recorded)
    : step_(std::move(step)),
      states_(step_.units.size()),
      flights_(static_cast<std::size_t>(step_.microbatches) + 1),
      forward_order_(recorded.empty() ? step_.forward_order : std::move(recorded)) {
  const std::size_t places = std::max<std::size_t>(step_.forward_order.size(), step_.units.size());
  not_over_.reserve(flights_.size());
  ops_.reserve(16 + 8 * step_.units.size());
  for (Flight& flight : flights_) {
    flight.runs.resize(states_.size());
    flight.entered.reserve(places);
    flight.left.units.reserve(places);
  }
  if (step_.backward_order != BackwardOrder::micro_batch)
    passes_.units.reserve(kMaxPrefetch + places * flights_.size());
  std::vector<bool> optional;
  for (const ScheduledUnit& unit : step_.units) optional.push_back(unit.may_be_unused);
  some_may_be_unused_ = std::find(optional.begin(), optional.end(), true) != optional.end();
  if (some_may_be_unused_) declared_ = DeclaredPass(step_.declared_places, std::move(optional));
}

std::span<const Op> Scheduler::on(Hook hook, int subject) {
  ops_.clear();
  switch (hook) {
    case Hook::begin_step: begin_step(); break;
    case Hook::begin_micro_batch: begin_micro_batch(); break;
    case Hook::enter_micro_batch: enter_micro_batch(subject); break;
    case Hook::before_forward:
    case Hook::after_forward:
    case Hook::before_backward:
    case Hook::after_backward: run_own_hook(hook, subject); break;
    case Hook::reduce: reduce_rest(); break;
    case Hook::update:
    case Hook::skip:
    case Hook::carry: finish_step(hook); break;
    case Hook::end_step: end_step(); break;
    case Hook::begin_evaluation: begin_evaluation(); break;
    case Hook::end_evaluation: end_evaluation(); break;
    case Hook::before_read: before_read(subject); break;
    case Hook::after_read: after_read(subject); break;
    case Hook::release: release_all(); break;
    case Hook::drop_carried:
      require(phase_ == Phase::idle, hook, -1, "a step or a forward-only pass is running");
      for (int unit = 0; unit < unit_count(); ++unit)
        if (live(unit, UnitBuffer::carried)) release(unit, UnitBuffer::carried);
      break;
    case Hook::abandon: abandon(); break;
  }
  return ops_;
}

bool Scheduler::whole(int unit) const {
  return !moves(unit) || states_[static_cast<std::size_t>(unit)].residence == Residence::whole;
}

bool Scheduler::reads_master(int unit) const {
  return live(unit, UnitBuffer::master);
}

bool Scheduler::carries() const {
  for (int unit = 0; unit < unit_count(); ++unit)
    if (live(unit, UnitBuffer::carried)) return true;
  return false;
}

void Scheduler::require(bool fine, Hook hook, int unit, const char* why) const {
  if (fine) return;
  throw Error(ErrorCode::model, std::string("the hook \"") + name(hook) + "\" came at a wrong time: " + why,
              unit < 0 ? "" : "unit " + std::to_string(unit));
}

bool Scheduler::being_read() const {
  return std::any_of(states_.begin(), states_.end(), [](const UnitState& unit) { return unit.reads > 0; });
}

void Scheduler::require_unit(Hook hook, int unit) const {
  require(unit >= 0 && unit < static_cast<int>(states_.size()), hook, unit, "the model has no such unit");
}

// ---- The bounds of steps and passes

void Scheduler::clear(Flight& flight) {
  flight.begun = flight.over = false;
  std::fill(flight.runs.begin(), flight.runs.end(), Runs{});
  flight.entered.clear();
  flight.left.clear();
  flight.forward_at = 0;
  if (some_may_be_unused_) flight.made_up.clear();
}

void Scheduler::begin_step() {
  require(phase_ == Phase::idle, Hook::begin_step, -1, "a step or a forward-only pass is running");
  require(!being_read(), Hook::begin_step, -1, "a unit is being read");
  phase_ = Phase::step;
  micro_batch_ = -1;
  begun_ = 0;
  first_not_begun_ = 0;
  not_over_.clear();
  for (Flight& flight : flights_) clear(flight);
  shorten_passes();
  for (UnitState& unit : states_) {
    unit.reduced = unit.exchanged = unit.divided = false;
    unit.unfinished = step_.microbatches;
  }
}

void Scheduler::begin_micro_batch() {
  require(phase_ == Phase::step && !unit_open(), Hook::begin_micro_batch, -1,
          "no step is running, its gradients are reduced already, or a unit is in use");
  require(!last_micro_batch(), Hook::begin_micro_batch, -1, "the step has no more micro-batches");
  if (begun_ > 0) {
    make_up_rests();
    end_micro_batches();
  }
  while (flights_[first_not_begun_].begun) ++first_not_begun_;
  micro_batch_ = static_cast<int>(first_not_begun_);
  begin_flight();
}

void Scheduler::begin_flight() {
  ++begun_;
  flight().begun = true;
  not_over_.push_back(micro_batch_);
}

void Scheduler::enter_micro_batch(int index) {
  require(phase_ == Phase::step && !unit_open(), Hook::enter_micro_batch, -1,
          "no step is running, its gradients are reduced already, or a unit is in use");
  require(index >= 0 && index < step_.microbatches, Hook::enter_micro_batch, -1, "the step has no such micro-batch");
  require(!flights_[static_cast<std::size_t>(index)].over, Hook::enter_micro_batch, -1, "this micro-batch is over");
  micro_batch_ = index;
  if (!flight().begun) begin_flight();
}

// What no backward came for is dropped: the program used its result in no loss.
void Scheduler::close(Flight& flight) {
  for (int unit = 0; unit < unit_count(); ++unit)
    if (unfinished(flight, unit)) --state(unit).unfinished;
  flight.over = true;
  for (int unit = 0; unit < unit_count(); ++unit) {
    Runs& runs = flight.runs[static_cast<std::size_t>(unit)];
    state(unit).outstanding -= runs.forward - runs.backward;
    for (; runs.saved > 0; --runs.saved) release(unit, UnitBuffer::saved);
  }
}

// Frees what no backward came for: units that were kept or shrunk for it, and what their runs saved.
void Scheduler::end_micro_batches() {
  drop_unused_prefetches();
  for (const int m : not_over_) close(flights_[static_cast<std::size_t>(m)]);
  not_over_.clear();
  for (int unit = 0; unit < unit_count(); ++unit)
    if (last_micro_batch() || at(unit).decision.after_backward == AfterBackward::free) free(unit);
}

void Scheduler::reduce_rest() {
  require((phase_ == Phase::step || phase_ == Phase::reduced) && !unit_open(), Hook::reduce, -1,
          "no step is running, it has been updated already, or a unit is in use");
  require(last_micro_batch(), Hook::reduce, -1, "the step has more micro-batches");
  if (phase_ == Phase::step) finish_reductions();
  phase_ = Phase::reduced;
}

// By the optimizer's update, without one, or with the gradients kept for the next step.
void Scheduler::finish_step(Hook hook) {
  require((phase_ == Phase::step || phase_ == Phase::reduced) && !unit_open(), hook, -1,
          "no step is running, it has been updated already, or a unit is in use");
  require(last_micro_batch(), hook, -1, "the step has more micro-batches");
  if (phase_ == Phase::step) finish_reductions();
  if (hook == Hook::update) emit(op(OpKind::update, -1));
  if (hook == Hook::carry) carry();
  for (int unit = 0; unit < unit_count(); ++unit) {
    if (live(unit, UnitBuffer::gradient_shard)) release(unit, UnitBuffer::gradient_shard);
    if (hook == Hook::update && live(unit, UnitBuffer::carried)) release(unit, UnitBuffer::carried);
  }
  phase_ = Phase::updated;
}

void Scheduler::end_step() {
  require(phase_ == Phase::updated, Hook::end_step, -1, "no step is running, or it has not been updated");
  const std::vector<int>* last = nullptr;
  bool deviates = false;
  for (std::size_t m = 0; m + 1 < flights_.size(); ++m) {
    if (flights_[m].entered.empty()) continue;
    last = &flights_[m].entered;
    deviates = deviates || *last != step_.forward_order;
  }
  if (deviates) ++order_deviations_;
  if (last != nullptr) forward_order_ = *last;
  phase_ = Phase::idle;
  micro_batch_ = -1;
}

void Scheduler::begin_evaluation() {
  require(phase_ == Phase::idle, Hook::begin_evaluation, -1, "a forward-only pass stands between steps");
  require(!being_read(), Hook::begin_evaluation, -1, "a unit is being read");
  phase_ = Phase::evaluation;
  clear(flight());
}

void Scheduler::end_evaluation() {
  require(phase_ == Phase::evaluation && !unit_open(), Hook::end_evaluation, -1,
          "no forward-only pass is running, or a unit is in use");
  if (some_may_be_unused_) make_up_rest(flight());
  drop_unused_prefetches();
  phase_ = Phase::idle;
}

// The values that are read are those that the optimizer updates: in fp32.
void Scheduler::before_read(int unit) {
  require_unit(Hook::before_read, unit);
  require(phase_ == Phase::idle, Hook::before_read, unit, "a step or a forward-only pass is running");
  UnitState& me = state(unit);
  if (me.reads++ > 0) return;
  if (!at(unit).casts) {
    me.read_gathered = !whole(unit);
    launch_gather(unit);
    return make_whole(unit);
  }
  if (!owns(unit) || step_.shards == 1) return;
  allocate(unit, UnitBuffer::master);
  Op gather = op(OpKind::gather, unit, at(unit).shard_bytes * (step_.shards - 1));
  gather.buffer = UnitBuffer::master;
  gather.ranks = step_.shards;
  emit(gather);
  Op wait = op(OpKind::wait_gather, unit);
  wait.buffer = UnitBuffer::master;
  emit(wait);
}

void Scheduler::after_read(int unit) {
  require_unit(Hook::after_read, unit);
  UnitState& me = state(unit);
  require(me.reads > 0, Hook::after_read, unit, "the unit is not being read");
  if (--me.reads > 0) return;
  if (live(unit, UnitBuffer::master)) release(unit, UnitBuffer::master);
  if (me.read_gathered) free(unit);
  me.read_gathered = false;
}

void Scheduler::release_all() {
  require(phase_ == Phase::idle, Hook::release, -1, "a step or a forward-only pass is running");
  require(!being_read(), Hook::release, -1, "a unit is being read");
  free_all();
}

// Back to where the step began: gradients of earlier steps, which wait for an update, stay.
void Scheduler::abandon() {
  finish_in_flight();
  free_all();
  for (Flight& flight : flights_) close(flight);
  for (int unit = 0; unit < unit_count(); ++unit) {
    for (const UnitBuffer buffer : {UnitBuffer::gradient, UnitBuffer::accumulator, UnitBuffer::gradient_shard,
                                    UnitBuffer::master})
      if (live(unit, buffer)) release(unit, buffer);
    const bool carried = live(unit, UnitBuffer::carried);
    state(unit) = UnitState{};
    state(unit).live[static_cast<std::size_t>(UnitBuffer::carried)] = carried;
  }
  for (Flight& flight : flights_) clear(flight);
  passes_.clear();
  open_forwards_ = open_backwards_ = 0;
  micro_batch_ = -1;
  begun_ = 0;
  phase_ = Phase::idle;
}

// ---- Making ops

Op Scheduler::op(OpKind kind, int unit, int64_t bytes) const {
  Op op;
  op.kind = kind;
  op.unit = unit;
  op.bytes = bytes;
  return op;
}

int64_t Scheduler::bytes(int unit, UnitBuffer buffer) const {
  const ScheduledUnit& me = at(unit);
  switch (buffer) {
    case UnitBuffer::whole: return me.copy_bytes * step_.shards;
    case UnitBuffer::partial: return me.copy_bytes * step_.shards / me.decision.after_forward.ranks;
    case UnitBuffer::master: return me.shard_bytes * step_.shards;
    case UnitBuffer::gradient: return me.gradient_bytes * step_.shards;
    case UnitBuffer::accumulator: return me.reduced_bytes * step_.shards;
    case UnitBuffer::gradient_shard:
    case UnitBuffer::reduce_scratch:
    case UnitBuffer::carried: return me.reduced_bytes;
    case UnitBuffer::saved: return me.saved_bytes;
  }
  return 0;
}

void Scheduler::allocate(int unit, UnitBuffer buffer) {
  Op allocate = op(OpKind::allocate, unit, bytes(unit, buffer));
  allocate.buffer = buffer;
  emit(allocate);
  state(unit).live[static_cast<std::size_t>(buffer)] = true;
}

void Scheduler::release(int unit, UnitBuffer buffer) {
  Op release = op(OpKind::release, unit, bytes(unit, buffer));
  release.buffer = buffer;
  emit(release);
  state(unit).live[static_cast<std::size_t>(buffer)] = false;
}

}  // namespace reshard::schedule
