#include "schedule/verify.h"

#include <algorithm>

#include "reshard/error.h"

namespace reshard::schedule {
namespace {

// The op that says that the program's computation begins or ends at this hook.
bool computes(Hook hook, OpKind& mark) {
  switch (hook) {
    case Hook::before_forward: mark = OpKind::forward_begin; return true;
    case Hook::after_forward: mark = OpKind::forward_end; return true;
    case Hook::before_backward: mark = OpKind::backward_begin; return true;
    case Hook::after_backward: mark = OpKind::backward_end; return true;
    case Hook::update: mark = OpKind::update; return true;
    default: return false;
  }
}

}  // namespace

Verifier::Verifier(const Step& step) : step_(step), states_(step.units.size()) {}

void Verifier::apply(Hook hook, int unit, std::span<const Op> ops) {
  begin(hook, unit);
  for (const Op& op : ops) {
    op_ = &op;
    apply(op);
    ++index_;
  }
  op_ = nullptr;
  end();
}

void Verifier::begin(Hook hook, int unit) {
  hook_ = hook;
  hook_unit_ = about_unit(hook) ? unit : -1;
  marks_ = 0;
  checked_unit_ = -1;
  switch (hook) {
    case Hook::begin_step:
      in_step_ = true;
      updated_ = false;
      begun_ = next_run_ = 0;
      for (UnitState& each : states_) each.runs.clear();
      break;
    case Hook::after_read: --state(unit).reads; break;
    case Hook::abandon:  // the exception left every hook
      for (UnitState& each : states_) each.forwards = each.backwards = each.reads = 0;
      in_step_ = false;
      break;
    default: break;
  }
}

void Verifier::end() {
  OpKind mark{};
  checked_unit_ = hook_unit_;
  const bool repeated = hook_unit_ >= 0 && spec(hook_unit_).may_be_unused;
  if (computes(hook_, mark))
    rule(marks_ == 1 || (marks_ > 1 && repeated), "the hook's computation is marked exactly once");
  if (hook_ == Hook::before_read) ++state(hook_unit_).reads;
  if (hook_ == Hook::update || hook_ == Hook::skip || hook_ == Hook::carry) updated_ = true;
  if (hook_ == Hook::begin_micro_batch) ++begun_;
  checked_unit_ = in_flight_;
  rule(in_flight_ < 0 || step_.overlap, "without overlap a reduce is waited for before its hook ends");
  for (int unit = 0; unit < unit_count(); ++unit) {
    checked_unit_ = unit;
    check_usable(unit);
    switch (hook_) {
      case Hook::begin_step:
        rule(state(unit).shard.runs.empty() && state(unit).gradient.runs.empty(), "a step begins without gradients");
        break;
      case Hook::begin_micro_batch:
        if (begun_ > 1) check_micro_batch_over(unit, false);  // before the first, an evaluation may have kept units
        break;
      case Hook::reduce:
        check_reduced(unit);
        check_micro_batch_over(unit, true);
        break;
      case Hook::end_evaluation: check_kept_only(unit); break;
      case Hook::update:
      case Hook::skip:
      case Hook::carry:
      case Hook::release:
      case Hook::abandon: check_nothing_live(unit); break;
      case Hook::drop_carried:
        rule(state(unit).live(UnitBuffer::carried) == 0, "every allocate has one release");
        break;
      case Hook::end_step:
        rule(updated_, "a step ends after its update");
        check_nothing_live(unit);
        break;
      default: break;
    }
  }
  if (hook_ == Hook::end_step) in_step_ = false;
}

void Verifier::apply(const Op& op) {
  if (op.kind == OpKind::update) return update(op);
  rule(op.unit >= 0 && op.unit < unit_count(), "an op names a unit of the step");
  switch (op.kind) {
    case OpKind::allocate: return allocate(op);
    case OpKind::release: return release(op);
    case OpKind::gather: return gather(op);
    case OpKind::cast: return cast(op);
    case OpKind::accumulate: return accumulate(op);
    case OpKind::wait_gather: return wait_gather(op);
    case OpKind::free: return free(op);
    case OpKind::shrink: return shrink(op);
    case OpKind::forward_begin:
    case OpKind::forward_end:
    case OpKind::backward_begin:
    case OpKind::backward_end: return compute(op);
    case OpKind::reduce: return reduce(op);
    case OpKind::all_reduce: return all_reduce(op);
    case OpKind::wait_reduce: return wait_reduce(op);
    case OpKind::adopt: return adopt(op);
    case OpKind::scale: return scale(op);
    case OpKind::update: return;
  }
}

// ---- Computation

void Verifier::compute(const Op& op) {
  UnitState& me = state(op.unit);
  OpKind mark{};
  const bool own = computes(hook_, mark) && mark == op.kind && op.unit == hook_unit_;
  rule(own || spec(op.unit).may_be_unused, "computation begins and ends at the program's own hooks");
  if (own) ++marks_;
  const bool reads = spec(op.unit).read_in_backward ||
                     (op.kind != OpKind::backward_begin && op.kind != OpKind::backward_end);
  rule(!reads || !moves(op.unit) || me.copy == Copy::whole,
       "a unit that is computed on is whole, its gather waited for");
  switch (op.kind) {
    case OpKind::forward_begin: ++me.forwards; break;
    case OpKind::forward_end:
      rule(me.forwards > 0, "a forward that ends has begun");
      --me.forwards;
      break;
    case OpKind::backward_begin:
      rule(in_step_, "a backward stands in a step");
      if (trains(op.unit)) {
        rule(me.live(UnitBuffer::gradient) > 0, "a backward finds its gradient memory");
        rule(in_flight_ != op.unit && !me.gradient.spent && me.gradient.ranks == 1 && !me.gradient.divided,
             "a backward does not add into a gradient that is reduced already");
      }
      ++me.backwards;
      break;
    default:
      rule(me.backwards > 0, "a backward that ends has begun");
      --me.backwards;
      if (!trains(op.unit)) break;
      me.gradient.runs.push_back(next_run_);
      me.runs.push_back(next_run_++);
      break;
  }
}

void Verifier::update(const Op&) {
  rule(hook_ == Hook::update && in_step_, "an update happens at the program's own hook");
  ++marks_;
  rule(in_flight_ < 0, "every reduce is waited for before the update");
  for (int unit = 0; unit < unit_count(); ++unit) {
    checked_unit_ = unit;
    check_reduced(unit);
    rule(state(unit).copy == Copy::none && state(unit).live(UnitBuffer::partial) == 0,
         "nothing is whole or partial when the parameters change");
  }
  updated_ = true;
}

void Verifier::check_usable(int unit) {
  const UnitState& me = state(unit);
  const bool computed = me.forwards > 0 || (me.backwards > 0 && spec(unit).read_in_backward);
  rule(!(computed || (me.reads > 0 && !spec(unit).casts)) || !moves(unit) || me.copy == Copy::whole,
       "a unit that is computed on is whole, its gather waited for");
  rule(me.reads == 0 || !owns(unit) || !spec(unit).casts || step_.shards == 1 || me.master_whole,
       "a unit that is read is there in fp32, its gather waited for");
}

void Verifier::check_micro_batch_over(int unit, bool last) {
  const UnitState& me = state(unit);
  const bool held = !last && spec(unit).decision.after_backward == AfterBackward::keep;
  rule(held || (me.copy == Copy::none && me.live(UnitBuffer::partial) == 0),
       "what the plan frees is free when its micro-batch is over");
}

void Verifier::check_kept_only(int unit) {
  const UnitState& me = state(unit);
  const bool keeps = spec(unit).decision.after_forward.kind == AfterForward::Kind::keep;
  rule(me.copy == Copy::none || (keeps && me.copy == Copy::whole),
       "after a forward-only pass only kept units are whole");
}

void Verifier::check_nothing_live(int unit) {
  const UnitState& me = state(unit);
  rule(in_flight_ < 0 && me.copy == Copy::none, "nothing is whole or in flight then");
  for (int buffer = 0; buffer < kUnitBuffers; ++buffer)
    rule(me.bytes[static_cast<std::size_t>(buffer)] == 0 || buffer == static_cast<int>(UnitBuffer::carried),
         "every allocate has one release");
}

// ---- Memory

int64_t Verifier::size(int unit, UnitBuffer buffer) const {
  const ScheduledUnit& me = spec(unit);
  switch (buffer) {
    case UnitBuffer::whole: return me.copy_bytes * step_.shards;
    case UnitBuffer::master: return me.shard_bytes * step_.shards;
    case UnitBuffer::gradient: return me.gradient_bytes * step_.shards;
    case UnitBuffer::accumulator: return me.reduced_bytes * step_.shards;
    case UnitBuffer::partial: {
      const AfterForward policy = me.decision.after_forward;
      return policy.kind == AfterForward::Kind::shrink ? me.copy_bytes * step_.shards / policy.ranks : 0;
    }
    case UnitBuffer::gradient_shard:
    case UnitBuffer::reduce_scratch:
    case UnitBuffer::carried: return me.reduced_bytes;
    case UnitBuffer::saved: return me.saved_bytes;
  }
  return 0;
}

Verifier::Sum* Verifier::sum(int unit, UnitBuffer buffer) {
  UnitState& me = state(unit);
  switch (buffer) {
    case UnitBuffer::gradient: return &me.gradient;
    case UnitBuffer::accumulator: return &me.accumulator;
    case UnitBuffer::gradient_shard: return &me.shard;
    case UnitBuffer::reduce_scratch: return &me.scratch;
    case UnitBuffer::carried: return &me.carried;
    default: return nullptr;
  }
}

void Verifier::change(int unit, UnitBuffer buffer, int64_t bytes) {
  state(unit).live(buffer) += bytes;
  live_[static_cast<std::size_t>(category(buffer))] += bytes;
  live_sum_ += bytes;
  peak_ = std::max(peak_, live_sum_);
}

void Verifier::allocate(const Op& op) {
  UnitState& me = state(op.unit);
  const int64_t bytes = size(op.unit, op.buffer);
  rule(op.bytes == bytes && bytes > 0, "an allocate has the bytes of the unit's buffer");
  rule(op.buffer == UnitBuffer::saved || me.live(op.buffer) == 0, "a buffer is allocated once before its release");
  rule(op.buffer != UnitBuffer::whole || moves(op.unit), "in a shard group of one the shard is the whole");
  rule(op.buffer != UnitBuffer::master || (spec(op.unit).casts && step_.shards > 1),
       "a master copy is made where the whole is of another dtype");
  change(op.unit, op.buffer, bytes);
  if (op.buffer == UnitBuffer::whole) me.copy = Copy::raw;
  if (op.buffer == UnitBuffer::partial) me.partial_valid = false;
  if (Sum* held = sum(op.unit, op.buffer)) *held = {};
  if (op.buffer == UnitBuffer::master) me.master_gathering = me.master_whole = false;
}

void Verifier::check_release(const Op& op) {
  const UnitState& me = state(op.unit);
  const bool dropped = hook_ == Hook::abandon;
  switch (op.buffer) {
    case UnitBuffer::whole: fail("whole memory goes back by free or shrink");
    case UnitBuffer::partial:
      rule(!(me.copy == Copy::gathering && me.from_partial),
           "a partial copy stays until the gather over it is waited for");
      break;
    case UnitBuffer::master:
      rule(me.reads == 0 && (me.master_whole || dropped), "a unit that is read stays");
      break;
    case UnitBuffer::gradient:
    case UnitBuffer::accumulator: {
      const Sum& held = op.buffer == UnitBuffer::gradient ? me.gradient : me.accumulator;
      rule(in_flight_ != op.unit, "gradient memory stays until its reduce is waited for");
      rule(me.backwards == 0 || op.buffer == UnitBuffer::accumulator,
           "gradient memory stays while a backward adds into it");
      rule(held.spent || held.runs.empty() || dropped, "a gradient is reduced before it is released");
      break;
    }
    case UnitBuffer::gradient_shard:
      rule(in_flight_ != op.unit, "gradient memory stays until its reduce is waited for");
      rule(updated_ || dropped || hook_ == Hook::skip || (hook_ == Hook::carry && me.carried.runs == me.shard.runs),
           "a gradient shard stays until the update");
      break;
    case UnitBuffer::carried:
      rule((updated_ && me.shard.carried) || (updated_ && me.live(UnitBuffer::gradient_shard) == 0) ||
               hook_ == Hook::drop_carried,
           "what is carried over stays until the update");
      break;
    case UnitBuffer::reduce_scratch:
      rule(in_flight_ != op.unit, "gradient memory stays until its reduce is waited for");
      rule(me.scratch.spent || me.scratch.runs.empty() || dropped,
           "a reduced gradient is added before its memory is released");
      break;
    case UnitBuffer::saved: break;
  }
}

void Verifier::release(const Op& op) {
  UnitState& me = state(op.unit);
  rule(me.live(op.buffer) > 0, "a release has an allocate");
  rule(op.bytes == size(op.unit, op.buffer), "a release has the bytes of its allocate");
  check_release(op);
  change(op.unit, op.buffer, -op.bytes);
  if (op.buffer == UnitBuffer::partial) me.partial_valid = false;
  if (Sum* held = sum(op.unit, op.buffer)) *held = {};
  if (op.buffer == UnitBuffer::master) me.master_gathering = me.master_whole = false;
}

// ---- Copies

void Verifier::gather(const Op& op) {
  UnitState& me = state(op.unit);
  if (op.buffer == UnitBuffer::master) {
    rule(me.live(UnitBuffer::master) > 0 && !me.master_whole && !me.master_gathering,
         "a gather finds fresh whole memory");
    rule(!op.from_partial && op.ranks == step_.shards, "a gather is over the shard group");
    rule(op.bytes == spec(op.unit).shard_bytes * (step_.shards - 1), "a gather receives (n-1)/n of the unit");
    me.master_gathering = true;
    return;
  }
  rule(step_.shards > 1, "in a shard group of one the shard is the whole");
  rule(me.copy == Copy::raw, "a gather finds fresh whole memory");
  if (op.from_partial) {
    rule(me.live(UnitBuffer::partial) > 0 && me.partial_valid, "a gather over partial copies finds one");
    rule(op.ranks == spec(op.unit).decision.after_forward.ranks, "a gather over partial copies has their ranks");
  } else {
    rule(op.ranks == step_.shards, "a gather is over the shard group");
  }
  rule(op.bytes == size(op.unit, UnitBuffer::whole) / op.ranks * (op.ranks - 1),
       "a gather receives (n-1)/n of the unit");
  me.copy = Copy::gathering;
  me.from_partial = op.from_partial;
}

void Verifier::cast(const Op& op) {
  rule(step_.shards == 1 && spec(op.unit).casts, "a cast makes the whole in a shard group of one");
  rule(state(op.unit).copy == Copy::raw, "a gather finds fresh whole memory");
  state(op.unit).copy = Copy::whole;
}

void Verifier::wait_gather(const Op& op) {
  if (op.buffer == UnitBuffer::master) {
    rule(state(op.unit).master_gathering, "a gather is waited for once, after its launch");
    state(op.unit).master_gathering = false;
    state(op.unit).master_whole = true;
    return;
  }
  rule(state(op.unit).copy == Copy::gathering, "a gather is waited for once, after its launch");
  state(op.unit).copy = Copy::whole;
}

void Verifier::free(const Op& op) {
  UnitState& me = state(op.unit);
  rule(me.copy != Copy::gathering, "a unit is not freed while its gather is in flight");
  rule(me.copy == Copy::whole, "a unit that is freed is whole");
  rule(!me.in_use(), "a unit in use is not freed");
  rule(op.bytes == size(op.unit, UnitBuffer::whole), "a free has the bytes of the whole unit");
  change(op.unit, UnitBuffer::whole, -op.bytes);
  me.copy = Copy::none;
}

void Verifier::shrink(const Op& op) {
  UnitState& me = state(op.unit);
  const AfterForward policy = spec(op.unit).decision.after_forward;
  rule(me.copy != Copy::gathering, "a unit is not shrunk while its gather is in flight");
  rule(me.copy == Copy::whole, "a unit that is shrunk is whole");
  rule(!me.in_use(), "a unit in use is not shrunk");
  rule(policy.kind == AfterForward::Kind::shrink && op.ranks == policy.ranks && op.ranks > 1 &&
           op.ranks < step_.shards && step_.shards % op.ranks == 0,
       "a shrink is to the ranks that the plan decided");
  rule(me.live(UnitBuffer::partial) > 0, "a shrink finds memory for its partial copy");
  rule(op.bytes == size(op.unit, UnitBuffer::whole), "a shrink has the bytes of the whole unit");
  change(op.unit, UnitBuffer::whole, -op.bytes);
  me.copy = Copy::none;
  me.partial_valid = true;
}

}  // namespace reshard::schedule
