// Whole copies: gathering, freeing, and gathering ahead.

#include <algorithm>
#include <iterator>

#include "schedule/scheduler.h"

namespace reshard::schedule {

void Scheduler::launch_gather(int unit) {
  UnitState& me = state(unit);
  me.prefetched = false;
  if (!moves(unit) || me.residence == Residence::whole || me.residence == Residence::gathering) return;
  if (step_.shards == 1) {
    allocate(unit, UnitBuffer::whole);
    emit(op(OpKind::cast, unit));
    me.residence = Residence::whole;
    return;
  }
  me.gathering_from_partial = me.residence == Residence::partial;
  const int ranks = me.gathering_from_partial ? at(unit).decision.after_forward.ranks : step_.shards;
  allocate(unit, UnitBuffer::whole);
  Op gather = op(OpKind::gather, unit, bytes(unit, UnitBuffer::whole) / ranks * (ranks - 1));
  gather.ranks = ranks;
  gather.from_partial = me.gathering_from_partial;
  emit(gather);
  me.residence = Residence::gathering;
}

void Scheduler::make_whole(int unit) {
  UnitState& me = state(unit);
  if (me.residence != Residence::gathering) return;
  emit(op(OpKind::wait_gather, unit));
  me.residence = Residence::whole;
  if (me.gathering_from_partial) release(unit, UnitBuffer::partial);
  me.gathering_from_partial = false;
}

void Scheduler::free(int unit) {
  UnitState& me = state(unit);
  if (me.residence == Residence::gathering) make_whole(unit);
  if (me.residence == Residence::partial) {
    release(unit, UnitBuffer::partial);
  } else if (me.residence == Residence::whole) {
    emit(op(OpKind::free, unit, bytes(unit, UnitBuffer::whole)));
    me.live[static_cast<std::size_t>(UnitBuffer::whole)] = false;
  }
  me.residence = Residence::sharded;
  me.prefetched = me.recomputed = false;
}

// A cast moves nothing between ranks: there is nothing to hide, and ahead of its use it only takes memory.
void Scheduler::prefetch(int unit) {
  UnitState& me = state(unit);
  if (!moves(unit) || step_.shards == 1 || me.residence == Residence::whole || me.residence == Residence::gathering)
    return;
  launch_gather(unit);
  me.prefetched = true;
}

void Scheduler::prefetch_forward(int unit) {
  std::size_t& at_place = flight().forward_at;
  const auto begin = forward_order_.begin(), end = forward_order_.end();
  auto here = std::find(begin + static_cast<std::ptrdiff_t>(std::min(at_place, forward_order_.size())), end, unit);
  if (here == end) here = std::find(begin, end, unit);  // out of order: start again from its first place
  if (here == end) return;
  at_place = static_cast<std::size_t>(here - begin) + 1;
  const std::size_t stop =
      std::min(forward_order_.size(), at_place + static_cast<std::size_t>(at(unit).decision.prefetch_forward));
  for (std::size_t place = at_place; place < stop; ++place) prefetch(forward_order_[place]);
}

void Scheduler::prefetch_backward(int unit) {
  const std::vector<int>& order = left().units;
  std::size_t here = left().ahead;
  while (here > 0 && order[here - 1] != unit) --here;
  if (here == 0) {  // out of order: its last place
    here = order.size();
    while (here > 0 && order[here - 1] != unit) --here;
  }
  if (here == 0) return;
  left().ahead = here - 1;
  const bool own = step_.backward_order == BackwardOrder::micro_batch;
  for (int ahead = 0; ahead < at(unit).decision.prefetch_backward && here >= 2; ++ahead, --here) {
    const int next = order[here - 2];
    const bool comes = runs(next).backward < runs(next).forward;
    if (at(next).read_in_backward && (comes || !own)) prefetch(next);
  }
}

// From the first unit of the pass that begins, no distance reaches further back.
void Scheduler::shorten_passes() {
  std::vector<int>& units = passes_.units;
  const std::ptrdiff_t beyond = std::ssize(units) - kMaxPrefetch;
  if (beyond > 0) units.erase(units.begin(), units.begin() + beyond);
  passes_.ahead = units.size();
}

void Scheduler::free_all() {
  for (int unit = 0; unit < unit_count(); ++unit)
    if (state(unit).residence != Residence::sharded) free(unit);
}

void Scheduler::drop_recomputed() {
  for (int unit = 0; unit < unit_count(); ++unit)
    if (state(unit).recomputed && !state(unit).in_use()) free(unit);
}

void Scheduler::drop_unused_prefetches() {
  for (int unit = 0; unit < unit_count(); ++unit)
    if (state(unit).prefetched) {
      ++prefetches_unused_;
      free(unit);
    }
}

}  // namespace reshard::schedule
