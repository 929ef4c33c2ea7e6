// How gradients become this rank's reduced shard: the half of the scheduler that runs after a unit's last backward of a
// micro-batch.
//
//   shard group of more than one   reduce: gradient → shard (added to what earlier micro-batches left), then, between
//                                  replicas, all-reduce of the shard. Where replicas exchange every micro-batch, a
//                                  later micro-batch goes through a scratch, so that the sum over all ranks is what is
//                                  added. Where reduce = "last" and gradients are added in another dtype than backward
//                                  writes, they gather in an accumulator until then.
//   shard group of one             the gradient is the shard: adopted as it is; programs add the next micro-batch into
//                                  it, unless replicas exchange every micro-batch. Where the dtypes differ, it is added
//                                  to the shard instead.
//
// The divisor is applied once, after the last addition: in the last reduction, or, where it is known only then, at the
// end of the step. Gradients that earlier steps have carried over are divided already, and added after that.

#include "schedule/scheduler.h"

namespace reshard::schedule {

// Whether micro-batches are added up in a memory of their own before one reduce.
bool Scheduler::accumulates(int unit) const {
  return at(unit).converts && step_.shards > 1 && step_.microbatches > 1 && at(unit).decision.reduce == Reduce::last;
}

// `last`: no further gradient of the unit will come in this step.
void Scheduler::reduce(int unit, bool last) {
  if (accumulates(unit)) {
    accumulate(unit, UnitBuffer::gradient, UnitBuffer::accumulator);
    release(unit, UnitBuffer::gradient);
  }
  const bool unsharded_sum = step_.shards == 1 && at(unit).converts;
  if (!last && !unsharded_sum && at(unit).decision.reduce == Reduce::last) return;
  finish_in_flight();  // one reduce in flight: its gradient memory is the next one's
  if (step_.shards > 1)
    reduce_sharded(unit, last);
  else
    reduce_unsharded(unit, last);
  if (in_flight_ >= 0 && !step_.overlap) finish_in_flight();
}

void Scheduler::reduce_sharded(int unit, bool last) {
  UnitState& me = state(unit);
  const bool first = !live(unit, UnitBuffer::gradient_shard);
  const bool exchange_each = step_.replicas > 1 && step_.all_reduce == AllReduce::each;
  const bool exchange_now = step_.replicas > 1 && (exchange_each || last);
  const bool scratch = !first && exchange_each;
  if (first) allocate(unit, UnitBuffer::gradient_shard);
  if (scratch) allocate(unit, UnitBuffer::reduce_scratch);
  const bool accumulated = accumulates(unit);
  const int64_t part = accumulated ? at(unit).reduced_bytes : at(unit).gradient_bytes;
  Op reduce = op(OpKind::reduce, unit, part * (step_.shards - 1));
  reduce.source = accumulated ? UnitBuffer::accumulator : UnitBuffer::gradient;
  reduce.ranks = step_.shards;
  reduce.add = !first && !scratch;
  reduce.into_scratch = scratch;
  reduce.divide = last && !exchange_now && !step_.divide_at_end;
  emit(reduce);
  if (exchange_now) all_reduce(unit, scratch, scratch, last);
  me.reduced = last;
  me.divided = last && !step_.divide_at_end;
  in_flight_ = unit;
}

void Scheduler::reduce_unsharded(int unit, bool last) {
  UnitState& me = state(unit);
  const bool each = at(unit).decision.reduce == Reduce::each;
  const bool exchange =
      step_.replicas > 1 && (last || (step_.all_reduce == AllReduce::each && (each || !at(unit).converts)));
  bool add = live(unit, UnitBuffer::gradient_shard), from_scratch = false;
  if (at(unit).converts) {
    from_scratch = add && me.exchanged;  // the sum over all ranks is what this micro-batch's is added to
    accumulate(unit, UnitBuffer::gradient, from_scratch ? UnitBuffer::reduce_scratch : UnitBuffer::gradient_shard);
    release(unit, UnitBuffer::gradient);
    add = from_scratch;
  }
  if (exchange) {
    all_reduce(unit, add, from_scratch, last);
    in_flight_ = unit;
  } else if (last && !at(unit).converts) {
    emit(op(OpKind::adopt, unit, at(unit).reduced_bytes));
    me.live[static_cast<std::size_t>(UnitBuffer::gradient)] = false;
    me.live[static_cast<std::size_t>(UnitBuffer::gradient_shard)] = true;
  }
  if (!last) return;
  me.reduced = true;
  if (!exchange && !step_.divide_at_end) emit(op(OpKind::scale, unit));
  me.divided = !step_.divide_at_end;
}

void Scheduler::accumulate(int unit, UnitBuffer source, UnitBuffer target) {
  const bool first = !live(unit, target);
  if (first) allocate(unit, target);
  Op accumulate = op(OpKind::accumulate, unit);
  accumulate.source = source;
  accumulate.buffer = target;
  accumulate.add = !first;
  emit(accumulate);
}

void Scheduler::all_reduce(int unit, bool add, bool from_scratch, bool last) {
  Op all = op(OpKind::all_reduce, unit, 2 * at(unit).reduced_bytes * (step_.replicas - 1) / step_.replicas);
  all.ranks = step_.replicas;
  all.add = add;
  all.into_scratch = from_scratch;
  all.divide = last && !step_.divide_at_end;
  emit(all);
  state(unit).exchanged = true;
}

void Scheduler::finish_in_flight() {
  if (in_flight_ < 0) return;
  const int unit = in_flight_;
  UnitState& me = state(unit);
  in_flight_ = -1;
  emit(op(OpKind::wait_reduce, unit));
  if (step_.shards == 1 && !live(unit, UnitBuffer::gradient_shard)) {
    emit(op(OpKind::adopt, unit, at(unit).reduced_bytes));
    me.live[static_cast<std::size_t>(UnitBuffer::gradient)] = false;
    me.live[static_cast<std::size_t>(UnitBuffer::gradient_shard)] = true;
  } else {
    for (const UnitBuffer buffer : {UnitBuffer::gradient, UnitBuffer::accumulator})
      if (live(unit, buffer)) release(unit, buffer);
  }
  if (live(unit, UnitBuffer::reduce_scratch)) release(unit, UnitBuffer::reduce_scratch);
}

// A unit that did not run in the last micro-batch still has a gradient to reduce, or a shard to exchange and divide.
void Scheduler::finish_reductions() {
  make_up_rests();
  finish_in_flight();
  end_micro_batches();
  for (int unit = 0; unit < unit_count(); ++unit) {
    if (live(unit, UnitBuffer::gradient)) reduce(unit, true);
    if (live(unit, UnitBuffer::accumulator) && !state(unit).reduced) {
      finish_in_flight();
      reduce_sharded(unit, true);
      if (!step_.overlap) finish_in_flight();
    }
    if (in_flight_ == unit && !state(unit).divided) finish_in_flight();  // in a shard group of one it is adopted only then
    if (live(unit, UnitBuffer::gradient_shard)) finish_sum(unit);
    if (live(unit, UnitBuffer::carried)) {
      finish_in_flight();
      add_carried(unit);
    }
  }
  finish_in_flight();
}

// What the last reduction did not do because it did not know that it was the last, or could not divide yet.
void Scheduler::finish_sum(int unit) {
  UnitState& me = state(unit);
  if (me.divided) return;
  finish_in_flight();
  if (step_.replicas > 1 && !me.exchanged) {
    all_reduce(unit, false, false, true);
    emit(op(OpKind::wait_reduce, unit));
    me.divided = !step_.divide_at_end;
  }
  if (!me.divided) emit(op(OpKind::scale, unit));
  me.divided = me.reduced = true;
}

// ---- Gradients over several steps

// The carried sum stays until the update, so that a step that is abandoned loses nothing.
void Scheduler::add_carried(int unit) {
  accumulate(unit, UnitBuffer::carried, UnitBuffer::gradient_shard);
}

void Scheduler::carry() {
  for (int unit = 0; unit < unit_count(); ++unit) {
    if (!live(unit, UnitBuffer::gradient_shard)) continue;
    if (!live(unit, UnitBuffer::carried)) allocate(unit, UnitBuffer::carried);
    Op put = op(OpKind::accumulate, unit);
    put.source = UnitBuffer::gradient_shard;
    put.buffer = UnitBuffer::carried;
    emit(put);
  }
}

}  // namespace reshard::schedule
