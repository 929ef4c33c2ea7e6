#include "engine/executor.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace reshard::engine {

using schedule::Op;
using schedule::OpKind;
using schedule::UnitBuffer;

namespace {

std::vector<int64_t> sizes(const UnitSpec& unit) {
  std::vector<int64_t> elements;
  for (const Parameter& parameter : unit.parameters) elements.push_back(parameter.elements());
  return elements;
}

memory::Block zeroed(memory::Pool& pool, int64_t bytes, MemoryCategory category) {
  memory::Block block = pool.allocate(bytes, category);
  if (bytes > 0) device::zero_bytes(block.data(), static_cast<std::size_t>(bytes));
  return block;
}

}  // namespace

Executor::Executor(const Model& model, const model::Mesh& mesh, int rank, int state_tensors, memory::Pool& pool,
                   device::Stream& stream, Groups& groups)
    : model_(model), mesh_(mesh), rank_(rank), pool_(pool), stream_(stream), groups_(groups) {
  shard_group_ = &groups_.of(mesh_.shard_group(rank_));
  replica_group_ = &groups_.of(mesh_.replica_group(rank_));
  for (const UnitSpec& spec : model_.units()) {
    UnitMemory unit;
    unit.layout = model::Layout(sizes(spec), mesh_.shards());
    unit.fragments = unit.layout.fragments(mesh_.shard_of(rank_));
    unit.shard = zeroed(pool_, unit.shard_bytes(), MemoryCategory::sharded_parameters);
    for (int s = 0; s < state_tensors; ++s)
      unit.states.push_back(zeroed(pool_, unit.shard_bytes(), MemoryCategory::optimizer_state));
    units_.push_back(std::move(unit));
  }
}

void Executor::prepare_partial(int k) {
  for (const auto& [ranks, group] : partial_groups_)
    if (ranks == k) return;
  partial_groups_.emplace_back(k, &groups_.of(mesh_.partial_group(rank_, k)));
}

comm::Tag Executor::tag(int unit) const {
  return {.unit = unit, .unit_name = model_.name({unit}), .dtype = Dtype::fp32};
}

float* Executor::whole(int unit) {
  UnitMemory& memory = at(unit);
  return mesh_.shards() == 1 ? memory.shard.as<float>() : memory.whole.as<float>();
}

void Executor::run(const Op& op) {
  switch (op.kind) {
    case OpKind::allocate: allocate(op); break;
    case OpKind::release:
      if (memory::Block* block = buffer(op)) block->release();
      break;
    case OpKind::gather: gather(op); break;
    case OpKind::wait_gather: wait(at(op.unit).gathered, Transfer::gather); break;
    case OpKind::free: at(op.unit).whole.release(); break;
    case OpKind::shrink: shrink(op); break;
    case OpKind::reduce: reduce(op); break;
    case OpKind::all_reduce: all_reduce(op); break;
    case OpKind::wait_reduce: wait(at(op.unit).reduced, at(op.unit).reducing); break;
    case OpKind::adopt: at(op.unit).gradient_shard = std::move(at(op.unit).gradient); break;
    case OpKind::scale: {
      float* values = at(op.unit).gradient_shard.as<float>();
      if (scale_ != 1.0F)
        for (int64_t i = 0; i < at(op.unit).layout.shard_elements(); ++i) values[i] *= scale_;
      break;
    }
    case OpKind::forward_begin:
    case OpKind::forward_end:
    case OpKind::backward_begin:
    case OpKind::backward_end:
    case OpKind::update: break;  // the program's and the caller's
  }
}

void Executor::give_back() {
  for (UnitMemory& unit : units_)
    for (memory::Block* block : {&unit.whole, &unit.partial, &unit.gradient, &unit.gradient_shard, &unit.scratch})
      block->release();
}

memory::Block* Executor::buffer(const Op& op) {
  UnitMemory& unit = at(op.unit);
  switch (op.buffer) {
    case UnitBuffer::whole: return &unit.whole;
    case UnitBuffer::partial: return &unit.partial;
    case UnitBuffer::gradient: return &unit.gradient;
    case UnitBuffer::gradient_shard: return &unit.gradient_shard;
    case UnitBuffer::reduce_scratch: return &unit.scratch;
    case UnitBuffer::saved: break;  // the program allocates what it saves (Runtime::allocate)
  }
  return nullptr;
}

void Executor::allocate(const Op& op) {
  memory::Block* block = buffer(op);
  if (block == nullptr) return;
  RESHARD_CHECK(!*block, "a unit's buffer is allocated once at a time");
  *block = pool_.allocate(op.bytes, category(op.buffer));
  if (op.buffer == UnitBuffer::gradient) device::zero_bytes(block->data(), static_cast<std::size_t>(op.bytes));
}

void Executor::wait(const device::Event& event, Transfer kind) {
  if (!stream_.concurrent()) return;
  const int64_t begin = now_ns();
  event.wait();
  meter_.exposed(kind, now_ns() - begin);
}

void Executor::gather(const Op& op) {
  UnitMemory& unit = at(op.unit);
  comm::Communicator* group = shard_group_;
  const void* mine = unit.shard.data();
  if (op.from_partial) {
    for (const auto& [k, partial_group] : partial_groups_)
      if (k == op.ranks) group = partial_group;
    mine = unit.partial.data();
  }
  RESHARD_CHECK(group->size() == op.ranks, "a gather's communicator has the ranks that the op says");
  void* whole = unit.whole.data();
  const auto bytes = static_cast<std::size_t>(unit.whole_bytes() / op.ranks);
  const comm::Tag tagged = tag(op.unit);
  meter_.count(Transfer::gather, op.bytes);
  launch(Transfer::gather, [=] { group->all_gather(mine, bytes, whole, tagged); });
  unit.gathered = stream_.record();
}

// This rank's slice of the whole, by its place in the group of k: a gather over the group gives the whole again.
void Executor::shrink(const Op& op) {
  UnitMemory& unit = at(op.unit);
  const int64_t slice = unit.whole_bytes() / op.ranks;
  const int place = mesh_.shard_of(rank_) % op.ranks;
  device::copy_bytes(unit.partial.data(), unit.whole.as<std::byte>() + place * slice, static_cast<std::size_t>(slice));
  unit.whole.release();
  meter_.count(Transfer::shrink, 0);
}

void Executor::reduce(const Op& op) {
  UnitMemory& unit = at(op.unit);
  const float* input = unit.gradient.as<float>();
  float* output = (op.into_scratch ? unit.scratch : unit.gradient_shard).as<float>();
  const auto count = static_cast<std::size_t>(unit.layout.shard_elements());
  const comm::ReduceOptions options{.add_to_output = op.add, .scale = op.divide ? scale_ : 1.0F};
  comm::Communicator* group = shard_group_;
  const comm::Tag tagged = tag(op.unit);
  meter_.count(Transfer::reduce, op.bytes);
  launch(Transfer::reduce,
         [=] { group->reduce_scatter(input, Dtype::fp32, output, Dtype::fp32, count, options, tagged); });
  unit.reduced = stream_.record();
  unit.reducing = Transfer::reduce;
}

void Executor::all_reduce(const Op& op) {
  UnitMemory& unit = at(op.unit);
  // In a shard group of one the gradient itself is exchanged, until it is adopted as the gradient shard.
  memory::Block& fresh = op.into_scratch ? unit.scratch : unit.gradient ? unit.gradient : unit.gradient_shard;
  memory::Block& input = mesh_.shards() == 1 || op.into_scratch ? fresh : unit.gradient_shard;
  const float* from = input.as<float>();
  float* to = (op.add ? unit.gradient_shard : input).as<float>();
  const auto count = static_cast<std::size_t>(unit.layout.shard_elements());
  const comm::ReduceOptions options{.add_to_output = op.add, .scale = op.divide ? scale_ : 1.0F};
  comm::Communicator* group = replica_group_;
  const comm::Tag tagged = tag(op.unit);
  meter_.count(Transfer::all_reduce, op.bytes);
  launch(Transfer::all_reduce, [=] { group->all_reduce(from, to, Dtype::fp32, count, options, tagged); });
  unit.reduced = stream_.record();
  unit.reducing = Transfer::all_reduce;
}

}  // namespace reshard::engine
