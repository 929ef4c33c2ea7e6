#include "schedule/scheduler.h"

#include <algorithm>
#include <string>
#include <utility>

#include "reshard/error.h"

namespace reshard::schedule {

Scheduler::Scheduler(Step step, std::vector<int> recorded)
    : step_(std::move(step)),
      states_(step_.units.size()),
      forward_order_(recorded.empty() ? step_.forward_order : std::move(recorded)) {
  const std::size_t places = std::max<std::size_t>(step_.forward_order.size(), step_.units.size());
  ops_.reserve(16 + 8 * step_.units.size());
  entered_.reserve(places);
  left_.reserve(places);
}

std::span<const Op> Scheduler::on(Hook hook, int unit) {
  ops_.clear();
  switch (hook) {
    case Hook::begin_step: begin_step(); break;
    case Hook::begin_micro_batch: begin_micro_batch(); break;
    case Hook::before_forward: before_forward(unit); break;
    case Hook::after_forward: after_forward(unit); break;
    case Hook::before_backward: before_backward(unit); break;
    case Hook::after_backward: after_backward(unit); break;
    case Hook::reduce: reduce_rest(); break;
    case Hook::update: update(); break;
    case Hook::end_step: end_step(); break;
    case Hook::begin_evaluation: begin_evaluation(); break;
    case Hook::end_evaluation: end_evaluation(); break;
    case Hook::before_read: before_read(unit); break;
    case Hook::after_read: after_read(unit); break;
    case Hook::release: release_all(); break;
    case Hook::abandon: abandon(); break;
  }
  return ops_;
}

bool Scheduler::whole(int unit) const {
  return !moves(unit) || states_[static_cast<std::size_t>(unit)].residence == Residence::whole;
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

void Scheduler::begin_step() {
  require(phase_ == Phase::idle, Hook::begin_step, -1, "a step or a forward-only pass is running");
  require(!being_read(), Hook::begin_step, -1, "a unit is being read");
  phase_ = Phase::step;
  micro_batch_ = -1;
  entered_.clear();
  left_.clear();
  for (UnitState& unit : states_) unit.divided = false;
}

void Scheduler::begin_micro_batch() {
  require(phase_ == Phase::step && !unit_open(), Hook::begin_micro_batch, -1,
          "no step is running, its gradients are reduced already, or a unit is in use");
  require(!last_micro_batch(), Hook::begin_micro_batch, -1, "the step has no more micro-batches");
  if (micro_batch_ >= 0) end_micro_batch();
  ++micro_batch_;
  forward_at_ = 0;
  backward_at_ = 0;
  entered_.clear();
  left_.clear();
  for (UnitState& unit : states_) unit.forward_runs = unit.backward_runs = 0;
}

void Scheduler::reduce_rest() {
  require((phase_ == Phase::step || phase_ == Phase::reduced) && !unit_open(), Hook::reduce, -1,
          "no step is running, it has been updated already, or a unit is in use");
  require(last_micro_batch(), Hook::reduce, -1, "the step has more micro-batches");
  finish_reductions();
  phase_ = Phase::reduced;
}

void Scheduler::update() {
  require((phase_ == Phase::step || phase_ == Phase::reduced) && !unit_open(), Hook::update, -1,
          "no step is running, it has been updated already, or a unit is in use");
  require(last_micro_batch(), Hook::update, -1, "the step has more micro-batches");
  finish_reductions();
  emit(op(OpKind::update, -1));
  for (int unit = 0; unit < unit_count(); ++unit)
    if (state(unit).gradient_shard) release(unit, UnitBuffer::gradient_shard);
  phase_ = Phase::updated;
}

void Scheduler::end_step() {
  require(phase_ == Phase::updated, Hook::end_step, -1, "no step is running, or it has not been updated");
  if (!entered_.empty()) {
    if (entered_ != step_.forward_order) ++order_deviations_;
    forward_order_ = entered_;
  }
  phase_ = Phase::idle;
  micro_batch_ = -1;
}

void Scheduler::begin_evaluation() {
  require(phase_ == Phase::idle, Hook::begin_evaluation, -1, "a forward-only pass stands between steps");
  require(!being_read(), Hook::begin_evaluation, -1, "a unit is being read");
  phase_ = Phase::evaluation;
  forward_at_ = 0;
}

void Scheduler::end_evaluation() {
  require(phase_ == Phase::evaluation && !unit_open(), Hook::end_evaluation, -1,
          "no forward-only pass is running, or a unit is in use");
  drop_unused_prefetches();
  phase_ = Phase::idle;
}

void Scheduler::before_read(int unit) {
  require_unit(Hook::before_read, unit);
  require(phase_ == Phase::idle, Hook::before_read, unit, "a step or a forward-only pass is running");
  if (state(unit).reads++ == 0) state(unit).read_gathered = !whole(unit);
  launch_gather(unit);
  make_whole(unit);
}

void Scheduler::after_read(int unit) {
  require_unit(Hook::after_read, unit);
  UnitState& me = state(unit);
  require(me.reads > 0, Hook::after_read, unit, "the unit is not being read");
  if (--me.reads == 0 && me.read_gathered) free(unit);
}

void Scheduler::release_all() {
  require(phase_ == Phase::idle, Hook::release, -1, "a step or a forward-only pass is running");
  require(!being_read(), Hook::release, -1, "a unit is being read");
  free_all();
}

void Scheduler::abandon() {
  finish_in_flight();
  free_all();
  drop_saved();
  for (int unit = 0; unit < unit_count(); ++unit) {
    UnitState& me = state(unit);
    if (me.gradient) release(unit, UnitBuffer::gradient);
    if (me.gradient_shard) release(unit, UnitBuffer::gradient_shard);
    me = UnitState{};
  }
  open_forwards_ = open_backwards_ = 0;
  micro_batch_ = -1;
  phase_ = Phase::idle;
}

// ---- One unit's forward and backward

void Scheduler::before_forward(int unit) {
  require_unit(Hook::before_forward, unit);
  require(phase_ == Phase::evaluation || (phase_ == Phase::step && micro_batch_ >= 0), Hook::before_forward, unit,
          "neither a micro-batch nor a forward-only pass is running");
  UnitState& me = state(unit);
  const bool recompute = open_backwards_ > 0;
  if (recompute && !me.in_use() && me.residence != Residence::whole) me.recomputed = true;
  launch_gather(unit);
  if (!recompute) {
    me.recomputed = false;
    if (phase_ == Phase::step) entered_.push_back(unit);
    prefetch_forward(unit);
  }
  make_whole(unit);
  ++me.forwards;
  ++open_forwards_;
  emit(op(OpKind::forward_begin, unit));
  if (phase_ == Phase::step && !recompute) {
    ++me.forward_runs;
    if (at(unit).saved_bytes > 0) allocate(unit, UnitBuffer::saved);
  }
}

void Scheduler::after_forward(int unit) {
  require_unit(Hook::after_forward, unit);
  UnitState& me = state(unit);
  require(me.forwards > 0, Hook::after_forward, unit, "the unit's forward is not running");
  emit(op(OpKind::forward_end, unit));
  --me.forwards;
  --open_forwards_;
  if (open_backwards_ > 0) return;  // a recompute: the backward around it will need the unit
  if (phase_ == Phase::step) {
    left_.push_back(unit);
    backward_at_ = left_.size();
  }
  if (unit == 0 && !me.in_use()) drop_unused_prefetches();  // the pass is over: what is gathered and unused has no use
  if (!moves(unit) || me.in_use()) return;
  const AfterForward policy = at(unit).decision.after_forward;
  if (policy.kind == AfterForward::Kind::keep) return;
  if (policy.kind == AfterForward::Kind::free) return free(unit);
  allocate(unit, UnitBuffer::partial);
  Op shrink = op(OpKind::shrink, unit, bytes(unit, UnitBuffer::whole));
  shrink.ranks = policy.ranks;
  emit(shrink);
  me.residence = Residence::partial;
}

void Scheduler::before_backward(int unit) {
  require_unit(Hook::before_backward, unit);
  UnitState& me = state(unit);
  require(phase_ == Phase::step && micro_batch_ >= 0, Hook::before_backward, unit, "no micro-batch is running");
  require(me.backward_runs + me.backwards < me.forward_runs, Hook::before_backward, unit,
          "the unit's forward has not run as often");
  require(!me.divided, Hook::before_backward, unit,
          "the unit's gradients of this step are reduced already; in the last micro-batch run all its forwards before "
          "its last backward");
  me.recomputed = false;
  launch_gather(unit);
  prefetch_backward(unit);
  make_whole(unit);
  if (in_flight_ == unit) finish_in_flight();  // its memory is read yet: the next gradient takes fresh memory
  if (owns(unit) && at(unit).trainable && !me.gradient) allocate(unit, UnitBuffer::gradient);
  ++me.backwards;
  ++open_backwards_;
  emit(op(OpKind::backward_begin, unit));
}

void Scheduler::after_backward(int unit) {
  require_unit(Hook::after_backward, unit);
  UnitState& me = state(unit);
  require(me.backwards > 0, Hook::after_backward, unit, "the unit's backward is not running");
  emit(op(OpKind::backward_end, unit));
  --me.backwards;
  --open_backwards_;
  ++me.backward_runs;
  if (me.saved > 0) release(unit, UnitBuffer::saved);
  const bool last_run = me.backward_runs == me.forward_runs;
  const Decision& decision = at(unit).decision;
  // Between the runs of one micro-batch a unit that is kept after forward stays for the next run.
  const bool keep = last_run ? decision.after_backward == AfterBackward::keep && !last_micro_batch()
                             : decision.after_forward.kind == AfterForward::Kind::keep;
  if (moves(unit) && !me.in_use() && !keep) free(unit);
  if (last_run && me.gradient && (decision.reduce == Reduce::each || last_micro_batch()))
    reduce(unit, last_micro_batch());
  if (unit == 0 && !me.in_use()) {
    drop_unused_prefetches();
    drop_recomputed();
    finish_in_flight();
  }
}

// ---- Gathering and freeing

void Scheduler::launch_gather(int unit) {
  UnitState& me = state(unit);
  me.prefetched = false;
  if (!moves(unit) || me.residence == Residence::whole || me.residence == Residence::gathering) return;
  me.gathering_from_partial = me.residence == Residence::partial;
  const int ranks = me.gathering_from_partial ? at(unit).decision.after_forward.ranks : step_.shards;
  allocate(unit, UnitBuffer::whole);
  Op gather = op(OpKind::gather, unit, bytes(unit, UnitBuffer::whole) / ranks * (ranks - 1));
  gather.ranks = ranks;
  gather.from_partial = me.gathering_from_partial;
  emit(gather);
  me.residence = Residence::gathering;
}

void Scheduler::make_whole(int unit) {
  UnitState& me = state(unit);
  if (me.residence != Residence::gathering) return;
  emit(op(OpKind::wait_gather, unit));
  me.residence = Residence::whole;
  if (me.gathering_from_partial) release(unit, UnitBuffer::partial);
  me.gathering_from_partial = false;
}

void Scheduler::free(int unit) {
  UnitState& me = state(unit);
  if (me.residence == Residence::gathering) make_whole(unit);
  if (me.residence == Residence::partial)
    release(unit, UnitBuffer::partial);
  else if (me.residence == Residence::whole)
    emit(op(OpKind::free, unit, bytes(unit, UnitBuffer::whole)));
  me.residence = Residence::sharded;
  me.prefetched = me.recomputed = false;
}

void Scheduler::prefetch(int unit) {
  UnitState& me = state(unit);
  if (!moves(unit) || me.residence == Residence::whole || me.residence == Residence::gathering) return;
  launch_gather(unit);
  me.prefetched = true;
}

void Scheduler::prefetch_forward(int unit) {
  const auto begin = forward_order_.begin(), end = forward_order_.end();
  auto here = std::find(begin + static_cast<std::ptrdiff_t>(std::min(forward_at_, forward_order_.size())), end, unit);
  if (here == end) here = std::find(begin, end, unit);  // out of order: start again from its first place
  if (here == end) return;
  forward_at_ = static_cast<std::size_t>(here - begin) + 1;
  const std::size_t stop =
      std::min(forward_order_.size(), forward_at_ + static_cast<std::size_t>(at(unit).decision.prefetch_forward));
  for (std::size_t place = forward_at_; place < stop; ++place) prefetch(forward_order_[place]);
}

void Scheduler::prefetch_backward(int unit) {
  std::size_t here = backward_at_;
  while (here > 0 && left_[here - 1] != unit) --here;
  if (here == 0) {  // out of order: its last place
    here = left_.size();
    while (here > 0 && left_[here - 1] != unit) --here;
  }
  if (here == 0) return;
  backward_at_ = here - 1;
  for (int ahead = 0; ahead < at(unit).decision.prefetch_backward && here >= 2; ++ahead, --here) {
    const int next = left_[here - 2];
    if (state(next).backward_runs < state(next).forward_runs) prefetch(next);
  }
}

void Scheduler::free_all() {
  for (int unit = 0; unit < unit_count(); ++unit)
    if (state(unit).residence != Residence::sharded) free(unit);
}

// Of runs whose backward did not come: the program used their results in no loss.
void Scheduler::drop_saved() {
  for (int unit = 0; unit < unit_count(); ++unit)
    while (state(unit).saved > 0) release(unit, UnitBuffer::saved);
}

void Scheduler::drop_unused_prefetches() {
  for (int unit = 0; unit < unit_count(); ++unit)
    if (state(unit).prefetched) {
      ++prefetches_unused_;
      free(unit);
    }
}

void Scheduler::drop_recomputed() {
  for (int unit = 0; unit < unit_count(); ++unit)
    if (state(unit).recomputed && !state(unit).in_use()) free(unit);
}

// Frees what no backward came for: units that were kept or shrunk for it, and what their runs saved.
void Scheduler::end_micro_batch() {
  drop_unused_prefetches();
  drop_saved();
  for (int unit = 0; unit < unit_count(); ++unit)
    if (last_micro_batch() || at(unit).decision.after_backward == AfterBackward::free) free(unit);
}

}  // namespace reshard::schedule
