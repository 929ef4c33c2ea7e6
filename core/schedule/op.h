#pragma once

// What the scheduler tells the executor. An op is plain integers; whoever wants to know what a step does (executor,
// totals, verifier, printer) reads the same ops, so prediction and execution cannot drift.

#include <cstdint>

#include "reshard/report.h"

namespace reshard::schedule {

enum class OpKind : uint8_t {
  allocate,        // `buffer` of `bytes`; gradients are zeroed
  release,         // `buffer` of `bytes`
  gather,          // launch: shards (or partial copies) of `ranks` ranks → whole (or `buffer` = master, in fp32);
                   // `bytes` received
  cast,            // a shard group of one: the shard → whole, in the dtype that is computed in; no bytes move
  wait_gather,     // compute may read the unit from here on
  free,            // whole → sharded; `bytes` of whole memory go back
  shrink,          // whole → partial(ranks): keeps this rank's slice; `bytes` of whole memory go back
  forward_begin,   // the program computes between begin and end
  forward_end,
  backward_begin,
  backward_end,
  reduce,          // launch: `source` → this rank's shard of the sum over `ranks`; `bytes` received
  all_reduce,      // launch: shards of the sum over `ranks` replicas; `bytes` received
  wait_reduce,     // the gradient memory is free to go from here on
  accumulate,      // `source` is put into `buffer`, or added to it (`add`), in the buffer's dtype: no bytes move
  adopt,           // the gradient becomes the gradient shard (a shard group of one, one dtype): no bytes move
  scale,           // the gradient shard is multiplied by the divisor: nothing else did it
  update,          // the optimizer, over every unit that has a gradient shard
};

// A unit's pieces of memory beside its shard and optimizer state, which stay for good.
enum class UnitBuffer : uint8_t {
  whole,           // parameters, in the dtype that is computed in
  partial,         // a slice of them
  master,          // parameters, whole in fp32, where that is not what is computed in: for reading and writing
  gradient,        // as backward writes it, in the parameters' dtype
  accumulator,     // gradients of several micro-batches, whole, in the dtype that is added in
  gradient_shard,  // reduced, in the dtype that is added in
  reduce_scratch,  // a micro-batch's reduced shard on its way into the gradient shard
  carried,         // gradient shards of steps that were not followed by an update
  saved,           // the program's
};
inline constexpr int kUnitBuffers = 9;

struct Op {
  OpKind kind = OpKind::allocate;
  UnitBuffer buffer = UnitBuffer::whole;     // allocate, release; gather, accumulate: the target
  UnitBuffer source = UnitBuffer::gradient;  // reduce, accumulate
  bool from_partial = false;  // gather: over the partial copies
  bool add = false;           // reduce: add to the gradient shard. all_reduce: the sum of the scratch (or of the
                              // gradient, in a shard group of one) is added to the gradient shard
  bool into_scratch = false;  // reduce: the result goes to the scratch. all_reduce: the input lies there
  bool divide = false;        // reduce, all_reduce, scale: the last addition; multiply by 1 / divisor
  int32_t unit = -1;
  int32_t ranks = 0;
  int64_t bytes = 0;
  bool operator==(const Op&) const = default;
};

const char* name(OpKind kind);  // "gather", "wait gather", …
MemoryCategory category(UnitBuffer buffer);

}  // namespace reshard::schedule
