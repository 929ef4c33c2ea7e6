// How the scheduler makes ops: each buffer's bytes, and what it remembers of those that are live.

#include "schedule/scheduler.h"

namespace reshard::schedule {

Op Scheduler::op(OpKind kind, int unit, int64_t bytes) const {
  Op op;
  op.kind = kind;
  op.unit = unit;
  op.bytes = bytes;
  return op;
}

int64_t Scheduler::bytes(int unit, UnitBuffer buffer) const {
  const int64_t shard = at(unit).shard_bytes, whole = shard * step_.shards;
  switch (buffer) {
    case UnitBuffer::whole:
    case UnitBuffer::gradient: return whole;
    case UnitBuffer::partial: return whole / at(unit).decision.after_forward.ranks;
    case UnitBuffer::gradient_shard: return shard;
    case UnitBuffer::reduce_scratch: return shard;
    case UnitBuffer::saved: return at(unit).saved_bytes;
  }
  return 0;
}

void Scheduler::allocate(int unit, UnitBuffer buffer) {
  Op allocate = op(OpKind::allocate, unit, bytes(unit, buffer));
  allocate.buffer = buffer;
  emit(allocate);
  UnitState& me = state(unit);
  if (buffer == UnitBuffer::gradient) me.gradient = true;
  if (buffer == UnitBuffer::gradient_shard) me.gradient_shard = true;
  if (buffer == UnitBuffer::reduce_scratch) me.scratch = true;
  if (buffer == UnitBuffer::saved) ++me.saved;
}

void Scheduler::release(int unit, UnitBuffer buffer) {
  Op release = op(OpKind::release, unit, bytes(unit, buffer));
  release.buffer = buffer;
  emit(release);
  UnitState& me = state(unit);
  if (buffer == UnitBuffer::gradient) me.gradient = false;
  if (buffer == UnitBuffer::gradient_shard) me.gradient_shard = false;
  if (buffer == UnitBuffer::reduce_scratch) me.scratch = false;
  if (buffer == UnitBuffer::saved) --me.saved;
}

}  // namespace reshard::schedule
