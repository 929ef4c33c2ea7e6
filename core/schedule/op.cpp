#include "schedule/op.h"

#include "schedule/hook.h"

namespace reshard::schedule {

const char* name(OpKind kind) {
  switch (kind) {
    case OpKind::allocate: return "allocate";
    case OpKind::release: return "release";
    case OpKind::gather: return "gather";
    case OpKind::cast: return "cast";
    case OpKind::wait_gather: return "wait gather";
    case OpKind::free: return "free";
    case OpKind::shrink: return "shrink";
    case OpKind::forward_begin: return "forward begin";
    case OpKind::forward_end: return "forward end";
    case OpKind::backward_begin: return "backward begin";
    case OpKind::backward_end: return "backward end";
    case OpKind::reduce: return "reduce";
    case OpKind::all_reduce: return "all-reduce";
    case OpKind::wait_reduce: return "wait reduce";
    case OpKind::accumulate: return "accumulate";
    case OpKind::adopt: return "adopt";
    case OpKind::scale: return "scale";
    case OpKind::update: return "update";
  }
  return "";
}

const char* name(Hook hook) {
  switch (hook) {
    case Hook::begin_step: return "begin step";
    case Hook::begin_micro_batch: return "begin micro-batch";
    case Hook::enter_micro_batch: return "enter micro-batch";
    case Hook::before_forward: return "before forward";
    case Hook::after_forward: return "after forward";
    case Hook::before_backward: return "before backward";
    case Hook::after_backward: return "after backward";
    case Hook::reduce: return "reduce";
    case Hook::update: return "update";
    case Hook::skip: return "skip";
    case Hook::carry: return "carry";
    case Hook::end_step: return "end step";
    case Hook::begin_evaluation: return "begin evaluation";
    case Hook::end_evaluation: return "end evaluation";
    case Hook::before_read: return "before read";
    case Hook::after_read: return "after read";
    case Hook::release: return "release";
    case Hook::drop_carried: return "drop carried";
    case Hook::abandon: return "abandon";
  }
  return "";
}

MemoryCategory category(UnitBuffer buffer) {
  switch (buffer) {
    case UnitBuffer::whole:
    case UnitBuffer::partial:
    case UnitBuffer::master: return MemoryCategory::whole_parameters;
    case UnitBuffer::gradient:
    case UnitBuffer::accumulator:
    case UnitBuffer::carried:
    case UnitBuffer::gradient_shard: return MemoryCategory::gradients;
    case UnitBuffer::reduce_scratch: return MemoryCategory::reduce_buffers;
    case UnitBuffer::saved: return MemoryCategory::activations;
  }
  return MemoryCategory::activations;
}

}  // namespace reshard::schedule
