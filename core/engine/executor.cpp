#include "engine/executor.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/accumulate.h"

namespace reshard::engine {

using schedule::Op;
using schedule::OpKind;
using schedule::UnitBuffer;

namespace {

memory::Block zeroed(memory::Pool& pool, int64_t bytes, MemoryCategory category) {
  memory::Block block = pool.allocate(bytes, category);
  if (bytes > 0) device::zero_bytes(block.data(), static_cast<std::size_t>(bytes));
  return block;
}

std::byte* bytes_at(void* memory, int64_t elements, Dtype dtype) {
  return static_cast<std::byte*>(memory) + elements * bytes_of(dtype);
}

// Every rank's shard of the unit into the whole of that dtype, section by section. The shard is cast on its way: into
// its own place of the whole, from where the others read it.
void gather_sections(comm::Communicator& group, const UnitMemory& unit, int place, void* whole, Dtype dtype,
                     const comm::Tag& tag) {
  for (const model::Section& section : unit.layout.sections()) {
    if (section.shard_elements == 0) continue;
    const float* shard = unit.shard.values() + section.shard_offset;
    const void* mine = shard;
    if (dtype != Dtype::fp32) {
      std::byte* own = bytes_at(whole, section.whole_offset + place * section.shard_elements, dtype);
      device::convert(shard, reinterpret_cast<Bf16*>(own), static_cast<std::size_t>(section.shard_elements));
      mine = own;
    }
    group.all_gather(mine, static_cast<std::size_t>(section.shard_elements * bytes_of(dtype)),
                     bytes_at(whole, section.whole_offset, dtype), tag);
  }
}

}  // namespace

Executor::Executor(const Model& model, const model::Mesh& mesh, int rank, const schedule::Precision& precision,
                   int state_tensors, memory::Pool& pool, device::Stream& stream, Groups& groups)
    : model_(model),
      mesh_(mesh),
      rank_(rank),
      precision_(precision),
      pool_(pool),
      stream_(stream),
      groups_(groups),
      units_(static_cast<std::size_t>(model.unit_count())),
      meter_(model.unit_count()) {
  shard_group_ = &groups_.of(mesh_.shard_group(rank_));
  replica_group_ = &groups_.of(mesh_.replica_group(rank_));
  for (int u = 0; u < unit_count(); ++u) {
    const UnitSpec& spec = model_.spec({u});
    UnitMemory& unit = at(u);
    unit.layout = model::Layout(spec, mesh_.shards());
    unit.dtype = schedule::computed_dtype(model_, u, precision_);
    unit.fragments = unit.layout.fragments(mesh_.shard_of(rank_));
    unit.shard = Shard(
        zeroed(pool_, unit.layout.shard_elements() * bytes_of(Dtype::fp32), MemoryCategory::sharded_parameters));
    for (int s = 0; s < (unit.trained_elements() > 0 ? state_tensors : 0); ++s)
      unit.states.push_back(
          zeroed(pool_, unit.trained_elements() * bytes_of(Dtype::fp32), MemoryCategory::optimizer_state));
  }
  make_widened();
}

void Executor::make_widened() {
  widened_.release();
  if (precision_.reduce == Dtype::fp32) return;
  int64_t most = 0;
  for (const UnitMemory& unit : units_) most = std::max(most, unit.trained_elements());
  widened_ = pool_.allocate(most * bytes_of(Dtype::fp32), MemoryCategory::reduce_buffers);
}

void Executor::prepare_partial(int k) {
  for (const auto& [ranks, group] : partial_groups_)
    if (ranks == k) return;
  partial_groups_.emplace_back(k, &groups_.of(mesh_.partial_group(rank_, k)));
}

comm::Tag Executor::tag(int unit) const {
  return {.unit = unit, .unit_name = model_.name({unit}), .dtype = at(unit).dtype};
}

Dtype Executor::dtype(int unit, UnitBuffer buffer) const {
  switch (buffer) {
    case UnitBuffer::whole:
    case UnitBuffer::partial:
    case UnitBuffer::gradient: return at(unit).dtype;
    case UnitBuffer::master:
    case UnitBuffer::saved: return Dtype::fp32;
    case UnitBuffer::accumulator:
    case UnitBuffer::gradient_shard:
    case UnitBuffer::reduce_scratch:
    case UnitBuffer::carried: break;
  }
  return precision_.reduce;
}

// Whatever forgets to free copies when it writes shards is caught here, before anybody reads old values.
void* Executor::current(int unit, UnitBuffer copy) {
  UnitMemory& memory = at(unit);
  RESHARD_CHECK(!memory.block(copy) || memory.version(copy) == memory.shard.version(),
                "a copy of a unit is of its shard as it is now");
  return memory.block(copy).data();
}

void* Executor::whole(int unit) {
  UnitMemory& memory = at(unit);
  const bool shard = mesh_.shards() == 1 && memory.dtype == Dtype::fp32;
  return shard ? const_cast<float*>(memory.shard.values()) : current(unit, UnitBuffer::whole);
}

float* Executor::master(int unit) {
  UnitMemory& memory = at(unit);
  if (mesh_.shards() == 1) return const_cast<float*>(memory.shard.values());
  return static_cast<float*>(current(unit, memory.dtype == Dtype::fp32 ? UnitBuffer::whole : UnitBuffer::master));
}

const float* Executor::reduced_gradient(int unit) {
  memory::Block& shard = at(unit).block(UnitBuffer::gradient_shard);
  if (!shard || precision_.reduce == Dtype::fp32) return shard.as<float>();
  device::convert(shard.as<Bf16>(), widened_.as<float>(), static_cast<std::size_t>(at(unit).trained_elements()));
  return widened_.as<float>();
}

void Executor::run(const Op& op) {
  switch (op.kind) {
    case OpKind::allocate: allocate(op); break;
    case OpKind::release: at(op.unit).block(op.buffer).release(); break;
    case OpKind::gather: op.from_partial ? gather_from_partial(op) : gather(op); break;
    case OpKind::cast: {
      UnitMemory& unit = at(op.unit);
      unit.version(UnitBuffer::whole) = unit.shard.version();
      device::convert(unit.shard.values(), unit.block(UnitBuffer::whole).as<Bf16>(),
                      static_cast<std::size_t>(unit.layout.shard_elements()));
      break;
    }
    case OpKind::wait_gather: wait(at(op.unit).gathered, Transfer::gather, op.unit); break;
    case OpKind::free: at(op.unit).block(UnitBuffer::whole).release(); break;
    case OpKind::shrink: shrink(op); break;
    case OpKind::reduce: reduce(op); break;
    case OpKind::all_reduce: all_reduce(op); break;
    case OpKind::wait_reduce: wait(at(op.unit).reduced, at(op.unit).reducing, op.unit); break;
    case OpKind::accumulate: accumulate(op); break;
    case OpKind::adopt:
      at(op.unit).block(UnitBuffer::gradient_shard) = std::move(at(op.unit).block(UnitBuffer::gradient));
      break;
    case OpKind::scale:
      scale(at(op.unit).block(UnitBuffer::gradient_shard).data(), precision_.reduce, at(op.unit).trained_elements(),
            scale_);
      break;
    case OpKind::forward_begin:
    case OpKind::forward_end:
    case OpKind::backward_begin:
    case OpKind::backward_end:
    case OpKind::update: break;  // the program's and the caller's
  }
}

void Executor::meet() {
  comm::Communicator* group = shard_group_;
  if (group->size() > 1) stream_.submit([=] { group->barrier({}); });
  meet_replicas();
}

void Executor::meet_replicas() {
  comm::Communicator* group = replica_group_;
  if (group->size() > 1) stream_.submit([=] { group->barrier({}); });
  stream_.synchronize();
}

void Executor::give_back() {
  for (UnitMemory& unit : units_)
    for (int buffer = 0; buffer < schedule::kUnitBuffers; ++buffer)
      if (static_cast<UnitBuffer>(buffer) != UnitBuffer::carried) unit.block(static_cast<UnitBuffer>(buffer)).release();
}

void Executor::allocate(const Op& op) {
  if (op.buffer == UnitBuffer::saved) return;  // the program allocates what it saves (Runtime::allocate)
  memory::Block& block = at(op.unit).block(op.buffer);
  RESHARD_CHECK(!block, "a unit's buffer is allocated once at a time");
  block = pool_.allocate(op.bytes, category(op.buffer));
  if (op.buffer == UnitBuffer::gradient) device::zero_bytes(block.data(), static_cast<std::size_t>(op.bytes));
}

void Executor::wait(const device::Event& event, Transfer kind, int unit) {
  if (!stream_.concurrent()) return;
  const int64_t begin = now_ns();
  event.wait();
  meter_.exposed(kind, unit, now_ns() - begin);
}

void Executor::gather(const Op& op) {
  UnitMemory* unit = &at(op.unit);
  comm::Communicator* group = shard_group_;
  RESHARD_CHECK(group->size() == op.ranks, "a gather's communicator has the ranks that the op says");
  const bool master = op.buffer == UnitBuffer::master;
  void* target = unit->block(master ? UnitBuffer::master : UnitBuffer::whole).data();
  const Dtype gathered = master ? Dtype::fp32 : unit->dtype;
  const int place = mesh_.shard_of(rank_);
  const comm::Tag tagged = tag(op.unit);
  meter_.count(Transfer::gather, op.bytes);
  meter_.gathered(op.unit);
  unit->version(master ? UnitBuffer::master : UnitBuffer::whole) = unit->shard.version();
  launch(Transfer::gather, op.unit, [=] { gather_sections(*group, *unit, place, target, gathered, tagged); });
  unit->gathered = stream_.record();
}

// A partial copy holds its slice of each section, one after the other.
void Executor::gather_from_partial(const Op& op) {
  UnitMemory* unit = &at(op.unit);
  comm::Communicator* group = nullptr;
  for (const auto& [k, partial_group] : partial_groups_)
    if (k == op.ranks) group = partial_group;
  RESHARD_CHECK(group != nullptr && group->size() == op.ranks, "the communicators of partial copies are made before");
  void* partial = current(op.unit, UnitBuffer::partial);
  void* whole = unit->block(UnitBuffer::whole).data();
  unit->version(UnitBuffer::whole) = unit->version(UnitBuffer::partial);
  const int64_t part = mesh_.shards() / op.ranks;  // shards in a slice
  const comm::Tag tagged = tag(op.unit);
  meter_.count(Transfer::gather, op.bytes);
  meter_.gathered(op.unit);
  launch(Transfer::gather, op.unit, [=] {
    for (const model::Section& section : unit->layout.sections()) {
      if (section.shard_elements == 0) continue;
      group->all_gather(bytes_at(partial, section.shard_offset * part, unit->dtype),
                        static_cast<std::size_t>(section.shard_elements * part * bytes_of(unit->dtype)),
                        bytes_at(whole, section.whole_offset, unit->dtype), tagged);
    }
  });
  unit->gathered = stream_.record();
}

// This rank's slice of the whole, by its place in the group of k: a gather over the group gives the whole again.
void Executor::shrink(const Op& op) {
  UnitMemory& unit = at(op.unit);
  const int64_t part = mesh_.shards() / op.ranks;
  const int place = mesh_.shard_of(rank_) % op.ranks;
  void* partial = unit.block(UnitBuffer::partial).data();
  void* whole = unit.block(UnitBuffer::whole).data();
  unit.version(UnitBuffer::partial) = unit.version(UnitBuffer::whole);
  for (const model::Section& section : unit.layout.sections()) {
    const int64_t slice = section.shard_elements * part;
    device::copy_bytes(bytes_at(partial, section.shard_offset * part, unit.dtype),
                       bytes_at(whole, section.whole_offset + place * slice, unit.dtype),
                       static_cast<std::size_t>(slice * bytes_of(unit.dtype)));
  }
  unit.block(UnitBuffer::whole).release();
  meter_.count(Transfer::shrink, 0);
}

void Executor::reduce(const Op& op) {
  UnitMemory& unit = at(op.unit);
  const void* input = unit.block(op.source).data();
  void* output = unit.block(op.into_scratch ? UnitBuffer::reduce_scratch : UnitBuffer::gradient_shard).data();
  const Dtype from = dtype(op.unit, op.source), to = precision_.reduce;
  const auto count = static_cast<std::size_t>(unit.trained_elements());
  const comm::ReduceOptions options{.add_to_output = op.add, .scale = op.divide ? scale_ : 1.0F};
  comm::Communicator* group = shard_group_;
  const comm::Tag tagged = tag(op.unit);
  meter_.count(Transfer::reduce, op.bytes);
  launch(Transfer::reduce, op.unit, [=] { group->reduce_scatter(input, from, output, to, count, options, tagged); });
  unit.reduced = stream_.record();
  unit.reducing = Transfer::reduce;
}

void Executor::all_reduce(const Op& op) {
  UnitMemory& unit = at(op.unit);
  memory::Block& gradient = unit.block(UnitBuffer::gradient);
  memory::Block& shard = unit.block(UnitBuffer::gradient_shard);
  // In a shard group of one the gradient itself is exchanged, until it is adopted as the gradient shard.
  const bool adopted_later = mesh_.shards() == 1 && unit.dtype == precision_.reduce && gradient;
  memory::Block& input = op.into_scratch ? unit.block(UnitBuffer::reduce_scratch) : adopted_later ? gradient : shard;
  const void* from = input.data();
  void* to = (op.add ? shard : input).data();
  const Dtype summed = precision_.reduce;
  const auto count = static_cast<std::size_t>(unit.trained_elements());
  const comm::ReduceOptions options{.add_to_output = op.add, .scale = op.divide ? scale_ : 1.0F};
  comm::Communicator* group = replica_group_;
  const comm::Tag tagged = tag(op.unit);
  meter_.count(Transfer::all_reduce, op.bytes);
  launch(Transfer::all_reduce, op.unit, [=] { group->all_reduce(from, to, summed, count, options, tagged); });
  unit.reduced = stream_.record();
  unit.reducing = Transfer::all_reduce;
}

void Executor::accumulate(const Op& op) {
  UnitMemory& unit = at(op.unit);
  const int64_t parts = op.buffer == UnitBuffer::accumulator ? mesh_.shards() : 1;
  engine::accumulate(unit.block(op.source).data(), dtype(op.unit, op.source), unit.block(op.buffer).data(),
                     dtype(op.unit, op.buffer), unit.trained_elements() * parts, op.add);
}

}  // namespace reshard::engine
