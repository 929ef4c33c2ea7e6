#pragma once

// Op streams by hand, for the verifier's tests: how one op is written, a legal script, and what the verifier says of
// one.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "reshard/error.h"
#include "schedule/verify.h"
#include "tests/schedule/plain_unit.h"

namespace reshard::schedule::script {

constexpr int64_t kShard = 256;

struct Call {
  Hook hook;
  int unit;
  std::vector<Op> ops;
};
using Script = std::vector<Call>;

inline Op make(OpKind kind, int unit, int64_t bytes = 0, int ranks = 0) {
  Op op;
  op.kind = kind;
  op.unit = unit;
  op.bytes = bytes;
  op.ranks = ranks;
  return op;
}
inline Op allocate(int unit, UnitBuffer buffer, int64_t bytes) {
  Op op = make(OpKind::allocate, unit, bytes);
  op.buffer = buffer;
  return op;
}
inline Op release(int unit, UnitBuffer buffer, int64_t bytes) {
  Op op = make(OpKind::release, unit, bytes);
  op.buffer = buffer;
  return op;
}
inline Op gather(int unit, int shards) {
  return make(OpKind::gather, unit, kShard * (shards - 1), shards);
}
inline Op gather_partial(int unit, int64_t whole, int k) {
  Op op = make(OpKind::gather, unit, whole / k * (k - 1), k);
  op.from_partial = true;
  return op;
}
inline Op shrink(int unit, int64_t whole, int k) {
  return make(OpKind::shrink, unit, whole, k);
}
inline Op reduce(int unit, int shards, bool add, bool into_scratch, bool divide) {
  Op op = make(OpKind::reduce, unit, kShard * (shards - 1), shards);
  op.add = add;
  op.into_scratch = into_scratch;
  op.divide = divide;
  return op;
}
inline Op all_reduce(int unit, int replicas, bool add, bool from_scratch, bool divide) {
  Op op = make(OpKind::all_reduce, unit, 2 * kShard * (replicas - 1) / replicas, replicas);
  op.add = add;
  op.into_scratch = from_scratch;
  op.divide = divide;
  return op;
}
inline Op simple(OpKind kind, int unit = 0) {
  return make(kind, unit);
}
inline Op free_op(int unit, int64_t whole) {
  return make(OpKind::free, unit, whole);
}

inline Step step(int shards, int replicas, int microbatches, int units,
                 AfterForward after_forward = AfterForward::free()) {
  Step step;
  step.shards = shards;
  step.replicas = replicas;
  step.microbatches = microbatches;
  for (int u = 0; u < units; ++u) {
    step.units.push_back(plain_unit({.after_forward = after_forward}, kShard));
    step.forward_order.push_back(u);
  }
  return step;
}

// The error's text, or "" when every op is legal.
inline std::string verdict(const Step& step, const Script& script) {
  Verifier verifier(step);
  try {
    for (const Call& call : script) verifier.apply(call.hook, call.unit, call.ops);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::plan);
    return error.what();
  }
  return "";
}

using B = UnitBuffer;
using K = OpKind;

// Two shards, one unit, freed after forward. Hooks 2 to 5 hold the ops.
inline Script plain() {
  return {{Hook::begin_step, -1, {}},
          {Hook::begin_micro_batch, -1, {}},
          {Hook::before_forward,
           0,
           {allocate(0, B::whole, 512), gather(0, 2), simple(K::wait_gather), simple(K::forward_begin)}},
          {Hook::after_forward, 0, {simple(K::forward_end), free_op(0, 512)}},
          {Hook::before_backward,
           0,
           {allocate(0, B::whole, 512), gather(0, 2), simple(K::wait_gather), allocate(0, B::gradient, 512),
            simple(K::backward_begin)}},
          {Hook::after_backward,
           0,
           {simple(K::backward_end), free_op(0, 512), allocate(0, B::gradient_shard, 256),
            reduce(0, 2, false, false, true), simple(K::wait_reduce), release(0, B::gradient, 512)}},
          {Hook::reduce, -1, {}},
          {Hook::update, -1, {make(K::update, -1), release(0, B::gradient_shard, 256)}},
          {Hook::end_step, -1, {}}};
}

struct Bad {
  std::function<void(Script&)> edit;
  std::string text;
};

inline void expect_all(const Step& step, const Script& good, const std::vector<Bad>& all) {
  EXPECT_EQ(verdict(step, good), "");
  for (const Bad& bad : all) {
    Script script = good;
    bad.edit(script);
    EXPECT_EQ(verdict(step, script), bad.text);
  }
}

inline void drop(Script& s, std::size_t call, std::size_t op) {
  s[call].ops.erase(s[call].ops.begin() + static_cast<std::ptrdiff_t>(op));
}
inline void put(Script& s, std::size_t call, std::size_t at, const Op& op) {
  s[call].ops.insert(s[call].ops.begin() + static_cast<std::ptrdiff_t>(at), op);
}

}  // namespace reshard::schedule::script
