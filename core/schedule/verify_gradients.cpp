// What the verifier knows about sums: which runs' gradients a memory contains, over how many ranks, divided or not.

#include <string>

#include "reshard/error.h"
#include "schedule/verify.h"

namespace reshard::schedule {

// One reduce in flight at a time; the all-reduce of the same unit may follow its reduce on the stream.
void Verifier::launch(int unit) {
  rule(in_flight_ < 0 || in_flight_ == unit, "a reduce is waited for before another unit's is launched");
  in_flight_ = unit;
}

void Verifier::divide(Sum& sum) {
  rule(!step_.divide_at_end || op_->kind == OpKind::scale, "the divisor is known at the end of the step only");
  rule(!sum.divided, "the divisor is applied once");
  sum.divided = true;
}

void Verifier::add_or_put(Sum& target, const Sum& value, bool add) {
  if (add) {
    rule(!target.runs.empty(), "an addition finds an earlier sum");
    rule(!target.divided, "the divisor is applied after the last addition");
    rule(target.ranks == value.ranks, "sums that are added are over the same ranks");
    target.runs.insert(target.runs.end(), value.runs.begin(), value.runs.end());
  } else {
    rule(target.runs.empty(), "a sum is not overwritten");
    target = value;
  }
  target.spent = false;
}

void Verifier::reduce(const Op& op) {
  UnitState& me = state(op.unit);
  rule(step_.shards > 1 && op.ranks == step_.shards, "a reduce is over the shard group");
  rule(op.source == UnitBuffer::gradient || op.source == UnitBuffer::accumulator, "a reduce finds a gradient");
  Sum& source = *sum(op.unit, op.source);
  rule(op.bytes == size(op.unit, op.source) / step_.shards * (step_.shards - 1),
       "a reduce receives (n-1)/n of the unit");
  rule(me.live(op.source) > 0 && !source.runs.empty(), "a reduce finds a gradient");
  rule(!source.spent, "a gradient is reduced once");
  rule(me.backwards == 0, "a gradient is complete when it is reduced");
  rule(me.live(op.into_scratch ? UnitBuffer::reduce_scratch : UnitBuffer::gradient_shard) > 0,
       "a reduce finds memory for its result");
  rule(!(op.add && op.into_scratch), "a reduce into the scratch adds to nothing");
  rule(in_flight_ < 0, "a reduce is waited for before another unit's is launched");
  launch(op.unit);
  Sum reduced = source;
  reduced.ranks *= op.ranks;
  source.spent = true;
  Sum& target = op.into_scratch ? me.scratch : me.shard;
  add_or_put(target, reduced, op.add);
  if (op.divide) divide(target);
}

Verifier::Sum& Verifier::all_reduce_input(const Op& op) {
  UnitState& me = state(op.unit);
  if (op.into_scratch) {
    rule(me.live(UnitBuffer::reduce_scratch) > 0, "an all-reduce finds its input");
    return me.scratch;
  }
  if (step_.shards == 1 && !spec(op.unit).converts && me.live(UnitBuffer::gradient) > 0) {
    rule(me.backwards == 0, "a gradient is complete when it is reduced");
    return me.gradient;
  }
  rule(me.live(UnitBuffer::gradient_shard) > 0, "an all-reduce finds its input");
  return me.shard;
}

void Verifier::all_reduce(const Op& op) {
  UnitState& me = state(op.unit);
  rule(step_.replicas > 1 && op.ranks == step_.replicas, "an all-reduce is over the replicas");
  rule(op.bytes == 2 * spec(op.unit).reduced_bytes * (step_.replicas - 1) / step_.replicas,
       "an all-reduce receives 2(r-1)/r of the shard");
  Sum& input = all_reduce_input(op);
  rule(!input.runs.empty(), "an all-reduce finds its input");
  rule(!input.spent, "a gradient is reduced once");
  rule(!input.divided, "the divisor is applied after the last addition");
  rule(input.ranks == step_.shards, "replicas exchange each sum once");
  rule(op.add == (&input != &me.shard && !me.shard.runs.empty()),
       "an all-reduce adds to the sum that is there, in place otherwise");
  rule(op.add || !op.into_scratch, "an all-reduce of the scratch adds to the sum that is there, in place otherwise");
  launch(op.unit);
  Sum sum = input;
  sum.ranks *= op.ranks;
  Sum& target = op.add ? me.shard : input;
  if (op.add) {
    input.spent = true;
    add_or_put(target, sum, true);
  } else {
    input = sum;
  }
  if (op.divide) divide(target);
}

void Verifier::wait_reduce(const Op& op) {
  rule(in_flight_ == op.unit, "a reduce is waited for once, after its launch");
  in_flight_ = -1;
}

void Verifier::adopt(const Op& op) {
  UnitState& me = state(op.unit);
  rule(step_.shards == 1 && !spec(op.unit).converts, "only in a shard group of one is the gradient the shard");
  rule(in_flight_ != op.unit, "gradient memory stays until its reduce is waited for");
  rule(me.live(UnitBuffer::gradient) > 0 && !me.gradient.runs.empty() && !me.gradient.spent,
       "an adopt finds a gradient");
  rule(me.backwards == 0, "a gradient is complete when it is reduced");
  rule(me.live(UnitBuffer::gradient_shard) == 0, "a sum is not overwritten");
  rule(op.bytes == spec(op.unit).reduced_bytes, "an adopt has the bytes of the shard");
  change(op.unit, UnitBuffer::gradient, -op.bytes);
  change(op.unit, UnitBuffer::gradient_shard, op.bytes);
  me.shard = me.gradient;
  me.gradient = {};
}

// Local additions: of a micro-batch's gradient to those before it, and of what steps without an update carry over.
void Verifier::accumulate(const Op& op) {
  UnitState& me = state(op.unit);
  Sum *source = sum(op.unit, op.source), *target = sum(op.unit, op.buffer);
  rule(source != nullptr && target != nullptr && source != target, "an accumulation adds one sum to another");
  rule(me.live(op.source) > 0 && !source->spent, "an accumulation finds what it adds");
  rule(me.live(op.buffer) > 0, "an accumulation finds memory for its result");
  rule(in_flight_ != op.unit, "a sum is added to after its reduce is waited for");
  if (op.buffer == UnitBuffer::carried) {
    rule(op.source == UnitBuffer::gradient_shard && hook_ == Hook::carry && !op.add,
         "gradients are carried over in place of an update");
    check_reduced(op.unit);
    *target = *source;
    target->runs = me.runs;
    target->carried = true;
    return;
  }
  if (op.source == UnitBuffer::carried) {
    rule(op.buffer == UnitBuffer::gradient_shard && !me.shard.carried && op.add == !me.shard.runs.empty() &&
             (me.shard.runs.empty() || me.shard.divided),
         "what is carried over is added once, to a sum that is divided");
    me.shard.ranks = step_.shards * step_.replicas;
    me.shard.divided = me.shard.carried = true;
    return;
  }
  rule(op.source == UnitBuffer::gradient && spec(op.unit).converts && me.backwards == 0,
       "a gradient is added to another sum where the dtypes differ");
  rule(op.buffer == UnitBuffer::accumulator ? step_.shards > 1 : step_.shards == 1,
       "an accumulation goes where the shard group's size says");
  add_or_put(*target, *source, op.add);
  source->spent = true;
}

void Verifier::scale(const Op& op) {
  UnitState& me = state(op.unit);
  rule(in_flight_ != op.unit, "a sum is scaled after its reduce is waited for");
  rule(me.live(UnitBuffer::gradient_shard) > 0 && !me.shard.runs.empty(), "a scale finds a sum");
  divide(me.shard);
}

// When the optimizer may read: all of the step's gradients, once each, in order, over all ranks, divided.
void Verifier::check_reduced(int unit) {
  const UnitState& me = state(unit);
  rule(in_flight_ < 0, "every reduce is waited for before the update");
  rule(me.live(UnitBuffer::gradient) == 0 && me.live(UnitBuffer::accumulator) == 0 &&
           me.live(UnitBuffer::reduce_scratch) == 0,
       "gradients are in the shard before the update");
  rule(me.live(UnitBuffer::carried) == 0 || me.shard.carried, "what is carried over is in the shard before the update");
  rule(me.shard.runs == me.runs, "each run's gradient is in the reduced shard exactly once, in order");
  if (me.runs.empty()) return;
  rule(me.shard.ranks == step_.shards * step_.replicas, "a gradient is summed over all ranks");
  rule(me.shard.divided, "the divisor is applied once");
}

// ---- Errors

void Verifier::rule(bool holds, const char* text) const {
  if (!holds) fail(text);
}

void Verifier::fail(const char* text) const {
  std::string where = op_ == nullptr ? "after op " + std::to_string(index_)
                                     : "op " + std::to_string(index_) + " \"" + name(op_->kind) + "\"";
  const int unit = op_ != nullptr && op_->kind != OpKind::update ? op_->unit : checked_unit_;
  if (unit >= 0) where += ", unit " + std::to_string(unit);
  throw Error(ErrorCode::plan, text, where + ", hook \"" + name(hook_) + "\"");
}

}  // namespace reshard::schedule
