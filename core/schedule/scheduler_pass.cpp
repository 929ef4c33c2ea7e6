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
    ++runs(unit).forward;
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
  require(runs(unit).backward + me.backwards < runs(unit).forward, Hook::before_backward, unit,
          "the unit's forward has not run as often");
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
  Runs& mine = runs(unit);
  ++mine.backward;
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
bool Scheduler::complete(int unit) const {
  if (!last_micro_batch()) return false;
  for (std::size_t m = 0; m + 1 < flights_.size(); ++m) {
    const Runs& runs = flights_[m].runs[static_cast<std::size_t>(unit)];
    if (m != current() && !flights_[m].over && (runs.forward == 0 || runs.backward < runs.forward)) return false;
  }
  return true;
}

// ---- Units that may be unused

// Brings the declared pass up to this hook. A hook that is not ahead in it is left alone: a forward-only pass may begin
// anew, and what comes in another order is the program's own.
void Scheduler::make_up(Hook hook, int unit) {
  const bool forward = hook == Hook::before_forward || hook == Hook::after_forward;
  if ((forward && open_backwards_ > 0) || (phase_ == Phase::step && micro_batch_ < 0)) return;
  if (phase_ != Phase::step && phase_ != Phase::evaluation) return;
  const std::size_t places = step_.declared_places.size();
  const bool begins = hook == Hook::before_forward || hook == Hook::before_backward;
  const auto find = [&](std::size_t from) {
    const std::size_t end = forward ? places : 2 * places;
    for (std::size_t place = std::max(from, forward ? 0 : places); place < end; ++place) {
      const DeclaredPlace& there = step_.declared_places[place < places ? place : 2 * places - 1 - place];
      if (there.unit == unit && (there.begins == begins) == forward) return place;
    }
    return 2 * places;
  };
  if (!forward && flight().declared_at < places) make_up_rest(places);
  std::size_t place = find(flight().declared_at);
  if (place == 2 * places && forward && phase_ == Phase::evaluation) {
    make_up_rest(places);
    flight().declared_at = 0;
    place = find(0);
  }
  if (place == 2 * places) return;
  make_up_rest(place);
  flight().declared_at = place + 1;
}

// Runs the hooks of the places before `end` that did not come, of the units that may be unused.
void Scheduler::make_up_rest(std::size_t end) {
  const std::size_t places = step_.declared_places.size();
  for (std::size_t at_place = flight().declared_at; at_place < end; ++at_place) {
    const bool forward = at_place < places;
    const DeclaredPlace& place = step_.declared_places[forward ? at_place : 2 * places - 1 - at_place];
    if (!at(place.unit).may_be_unused) continue;
    if (forward) {
      run_hook(place.begins ? Hook::before_forward : Hook::after_forward, place.unit);
    } else if (!place.begins) {
      if (runs(place.unit).backward < runs(place.unit).forward) run_hook(Hook::before_backward, place.unit);
    } else if (state(place.unit).backwards > 0) {
      run_hook(Hook::after_backward, place.unit);
    }
  }
  flight().declared_at = std::max(flight().declared_at, end);
}

}  // namespace reshard::schedule
