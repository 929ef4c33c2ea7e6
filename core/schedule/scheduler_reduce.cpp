// How gradients become this rank's reduced shard: the half of the scheduler that runs after a unit's last backward.
//
//   shard group of more than one   reduce: gradient → shard (added to what earlier micro-batches left), then, between
//                                  replicas, all-reduce of the shard. Where replicas exchange every micro-batch, a
//                                  later micro-batch goes through a scratch, so that the sum over all ranks is what is
//                                  added.
//   shard group of one             the gradient is the shard: adopted as it is; programs add the next micro-batch into
//   it,
//                                  unless replicas exchange every micro-batch.
//
// The divisor is applied once, after the last addition.

#include "schedule/scheduler.h"

namespace reshard::schedule {

void Scheduler::reduce(int unit, bool last) {
  finish_in_flight();  // one reduce in flight: its gradient memory is the next one's
  if (step_.shards > 1)
    reduce_sharded(unit, last);
  else
    reduce_unsharded(unit, last);
  if (in_flight_ >= 0 && !step_.overlap) finish_in_flight();
}

void Scheduler::reduce_sharded(int unit, bool last) {
  UnitState& me = state(unit);
  const bool first = !me.gradient_shard;
  const bool exchange_each = step_.replicas > 1 && step_.all_reduce == AllReduce::each;
  const bool exchange_now = step_.replicas > 1 && (exchange_each || last);
  const bool scratch = !first && exchange_each;
  if (first) allocate(unit, UnitBuffer::gradient_shard);
  if (scratch) allocate(unit, UnitBuffer::reduce_scratch);
  Op reduce = op(OpKind::reduce, unit, at(unit).shard_bytes * (step_.shards - 1));
  reduce.ranks = step_.shards;
  reduce.add = !first && !scratch;
  reduce.into_scratch = scratch;
  reduce.divide = last && !exchange_now;
  emit(reduce);
  if (exchange_now) all_reduce(unit, scratch, scratch, last);
  me.divided = last;
  in_flight_ = unit;
}

void Scheduler::reduce_unsharded(int unit, bool last) {
  UnitState& me = state(unit);
  const bool exchange_each = step_.replicas > 1 && step_.all_reduce == AllReduce::each;
  if (step_.replicas > 1 && (exchange_each || last)) {
    all_reduce(unit, me.gradient_shard, false, last);
    me.divided = last;
    in_flight_ = unit;
  } else if (last) {
    emit(op(OpKind::adopt, unit, at(unit).shard_bytes));
    me.gradient = false;
    me.gradient_shard = true;
    emit(op(OpKind::scale, unit));
    me.divided = true;
  }
}

void Scheduler::all_reduce(int unit, bool add, bool from_scratch, bool divide) {
  Op all = op(OpKind::all_reduce, unit, 2 * at(unit).shard_bytes * (step_.replicas - 1) / step_.replicas);
  all.ranks = step_.replicas;
  all.add = add;
  all.into_scratch = from_scratch;
  all.divide = divide;
  emit(all);
}

void Scheduler::finish_in_flight() {
  if (in_flight_ < 0) return;
  const int unit = in_flight_;
  UnitState& me = state(unit);
  in_flight_ = -1;
  emit(op(OpKind::wait_reduce, unit));
  if (step_.shards == 1 && !me.gradient_shard) {
    emit(op(OpKind::adopt, unit, at(unit).shard_bytes));
    me.gradient = false;
    me.gradient_shard = true;
  } else {
    release(unit, UnitBuffer::gradient);
  }
  if (me.scratch) release(unit, UnitBuffer::reduce_scratch);
}

// A unit that did not run in the last micro-batch still has a gradient to reduce, or a shard to exchange and divide.
void Scheduler::finish_reductions() {
  finish_in_flight();
  end_micro_batch();
  for (int unit = 0; unit < unit_count(); ++unit) {
    UnitState& me = state(unit);
    if (me.gradient) reduce(unit, true);
    if (me.gradient_shard && !me.divided) complete(unit);
  }
  finish_in_flight();
}

void Scheduler::complete(int unit) {
  finish_in_flight();
  UnitState& me = state(unit);
  me.divided = true;
  if (step_.replicas == 1 || step_.all_reduce == AllReduce::each) return emit(op(OpKind::scale, unit));
  all_reduce(unit, false, false, true);
  emit(op(OpKind::wait_reduce, unit));
}

}  // namespace reshard::schedule
