// A unit's forward and backward, and the runs that are made up for where a unit may be unused.

#include <algorithm>

#include "schedule/scheduler.h"

namespace reshard::schedule {

void Scheduler::run_hook(Hook hook, int unit) {
  switch (hook) {
    case Hook::before_forward: return before_forward(unit);
    case Hook::after_forward: return after_forward(unit);
    case Hook::before_backward: return before_backward(unit);
    default: return after_backward(unit);
  }
}

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
    flight().entered.push_back(unit);
    prefetch_forward(unit);
  }
  make_whole(unit);
  ++me.forwards;
  ++open_forwards_;
  emit(op(OpKind::forward_begin, unit));
  if (phase_ == Phase::step && !recompute) {
    count_run(unit, &Runs::forward);
    ++me.outstanding;
    if (at(unit).saved_bytes > 0) {
      allocate(unit, UnitBuffer::saved);
      ++runs(unit).saved;
    }
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
  const bool own = step_.backward_order == BackwardOrder::micro_batch;
  if (own ? phase_ == Phase::step : owns(unit)) {
    left().units.push_back(unit);
    left().ahead = left().units.size();
  }
  if (phase_ == Phase::evaluation && unit == 0) shorten_passes();
  if (unit == 0 && !me.in_use()) drop_unused_prefetches();  // the pass is over: what is gathered and unused has no use
  if (moves(unit) && !me.in_use()) leave_forward(unit);
}

// Counts a run and, with it, whether the micro-batch has yet to finish the unit.
void Scheduler::count_run(int unit, int Runs::* run) {
  const bool before = unfinished(flight(), unit);
  ++(runs(unit).*run);
  state(unit).unfinished += (unfinished(flight(), unit) ? 1 : 0) - (before ? 1 : 0);
}

// The plan's after_forward, once nobody uses the unit.
void Scheduler::leave_forward(int unit) {
  const AfterForward policy = at(unit).decision.after_forward;
  if (policy.kind == AfterForward::Kind::keep) return;
  if (policy.kind == AfterForward::Kind::free) return free(unit);
  allocate(unit, UnitBuffer::partial);
  Op shrink = op(OpKind::shrink, unit, bytes(unit, UnitBuffer::whole));
  shrink.ranks = policy.ranks;
  emit(shrink);
  state(unit).residence = Residence::partial;
}

void Scheduler::before_backward(int unit) {
  require_unit(Hook::before_backward, unit);
  UnitState& me = state(unit);
  require(phase_ == Phase::step && micro_batch_ >= 0, Hook::before_backward, unit, "no micro-batch is running");
  if (runs(unit).backward + me.backwards >= runs(unit).forward)
    require(false, Hook::before_backward, unit,
            flight().made_up.made_up_backward(unit)
                ? "it was made up for when an earlier unit's came; where units may be unused, run backwards in the "
                  "reverse order of their forwards"
                : "the unit's forward has not run as often");
  require(!me.reduced, Hook::before_backward, unit,
          "the unit's gradients of this step are reduced already; in the last micro-batch run all its forwards before "
          "its last backward");
  me.recomputed = false;
  const bool read = at(unit).read_in_backward;
  if (read) launch_gather(unit);
  prefetch_backward(unit);
  if (read) make_whole(unit);
  if (in_flight_ == unit) finish_in_flight();  // its memory is read yet: the next gradient takes fresh memory
  if (trains(unit) && !live(unit, UnitBuffer::gradient)) allocate(unit, UnitBuffer::gradient);
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
  --me.outstanding;
  count_run(unit, &Runs::backward);
  Runs& mine = runs(unit);
  if (mine.saved > 0) {
    release(unit, UnitBuffer::saved);
    --mine.saved;
  }
  if (moves(unit) && !me.in_use() && !kept_after_backward(unit)) free(unit);
  if (mine.backward == mine.forward && live(unit, UnitBuffer::gradient)) reduce(unit, complete(unit));
  if (unit == 0 && !me.in_use()) {
    drop_unused_prefetches();
    drop_recomputed();
    finish_in_flight();
    if (step_.backward_order == BackwardOrder::since_backward || complete(unit)) passes_.clear();
  }
}

// Between the runs of one micro-batch, and while other micro-batches wait for their backward, a unit that is kept after
// forward stays for the next run.
bool Scheduler::kept_after_backward(int unit) {
  const Decision& decision = at(unit).decision;
  const bool kept_forward = decision.after_forward.kind == AfterForward::Kind::keep;
  if (runs(unit).backward < runs(unit).forward) return kept_forward;
  if (state(unit).outstanding > 0 && kept_forward) return true;
  return decision.after_backward == AfterBackward::keep && !complete(unit);
}

// No micro-batch of this step will run the unit's backward again, once the present one has.
bool Scheduler::complete(int unit) {
  if (!last_micro_batch()) return false;
  return state(unit).unfinished == (unfinished(flight(), unit) ? 1 : 0);
}

// ---- Units that may be unused

// The program's own hook of a unit, after those that this rank makes up before it.
void Scheduler::run_own_hook(Hook hook, int unit) {
  const bool backward = hook == Hook::before_backward || hook == Hook::after_backward;
  const bool in_pass = phase_ == Phase::step ? micro_batch_ >= 0 : phase_ == Phase::evaluation && !backward;
  if (some_may_be_unused_ && in_pass && unit >= 0 && unit < unit_count()) {
    missing_.clear();
    MadeUp& made_up = flight().made_up;
    switch (hook) {
      case Hook::before_forward: made_up.before_forward(declared_, unit, open_backwards_ > 0, missing_); break;
      case Hook::after_forward: made_up.after_forward(declared_, unit, open_backwards_ > 0, missing_); break;
      case Hook::before_backward: made_up.before_backward(declared_, unit, missing_); break;
      default: made_up.after_backward(unit, missing_); break;
    }
    for (const UnitHook& each : missing_) run_hook(each.hook, each.unit);
  }
  run_hook(hook, unit);
}

// No hook of this pass will come any more.
void Scheduler::make_up_rest(Flight& flight) {
  missing_.clear();
  flight.made_up.finish(declared_, phase_ == Phase::step, missing_);
  for (const UnitHook& each : missing_) run_hook(each.hook, each.unit);
}

// The same for every micro-batch that is not over.
void Scheduler::make_up_rests() {
  if (!some_may_be_unused_) return;
  const int present = micro_batch_;
  for (const int m : not_over_) {
    micro_batch_ = m;
    make_up_rest(flight());
  }
  micro_batch_ = present;
}

}  // namespace reshard::schedule
