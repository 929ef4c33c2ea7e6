// Laying parameters and optimizer state out anew after shard_over changed: tensor by tensor, so that beside the shards
// no more than one tensor of one unit is ever whole.

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/executor.h"

namespace reshard::engine {
namespace {

constexpr auto kBytes = bytes_of(Dtype::fp32);

}  // namespace

int64_t Executor::relay(const model::Mesh& mesh) {
  int64_t received = 0;
  for (int u = 0; u < unit_count(); ++u) {
    UnitMemory& unit = at(u);
    const model::Layout to(model_.spec({u}), mesh.shards());
    received += relay_tensor(unit.shard.replace(), unit, to, mesh, MemoryCategory::sharded_parameters, tag(u));
    for (memory::Block& state : unit.states)
      received += relay_tensor(state, unit, to, mesh, MemoryCategory::optimizer_state, tag(u));
    unit.layout = to;
    unit.fragments = to.fragments(mesh.shard_of(rank_));
  }
  mesh_ = mesh;
  shard_group_ = &groups_.of(mesh_.shard_group(rank_));
  replica_group_ = &groups_.of(mesh_.replica_group(rank_));
  partial_groups_.clear();
  make_widened();
  return received;
}

// The tensor has both sections of a shard (parameters) or the trainable one alone (optimizer state).
int64_t Executor::relay_tensor(memory::Block& tensor, const UnitMemory& unit, const model::Layout& to,
                               const model::Mesh& mesh, MemoryCategory category, const comm::Tag& tagged) {
  const model::Layout& from = unit.layout;
  const int64_t elements = tensor.bytes() / kBytes;  // of this rank's old shard
  if (elements == 0) return 0;
  int64_t received = 0;
  memory::Block gathered;
  const float* whole = tensor.as<float>();
  if (from.shards() > 1) {
    gathered = pool_.allocate(elements * from.shards() * kBytes, MemoryCategory::whole_parameters);
    received = elements * kBytes * (from.shards() - 1);
    meter_.count(Transfer::relay, received);
    comm::Communicator* group = shard_group_;
    const float* mine = tensor.as<float>();
    float* target = gathered.as<float>();
    const std::array<model::Section, 2>* sections = &from.sections();
    launch(Transfer::relay, tagged.unit, [=] {
      for (const model::Section& section : *sections)
        if (section.shard_elements > 0 && section.shard_offset < elements)
          group->all_gather(mine + section.shard_offset, static_cast<std::size_t>(section.shard_elements * kBytes),
                            target + section.whole_offset, tagged);
    });
    stream_.synchronize();
    whole = gathered.as<float>();
  }
  const bool all = elements == from.shard_elements();
  const int64_t now = all ? to.shard_elements() : to.trainable().shard_elements;
  memory::Block fresh = pool_.allocate(now * kBytes, category);
  std::memset(fresh.data(), 0, static_cast<std::size_t>(now * kBytes));  // padding stays zero
  for (const model::Fragment& part : to.fragments(mesh.shard_of(rank_)))
    if (part.shard_offset < now)
      std::copy_n(whole + from.offset(part.parameter) + part.offset, part.length,
                  fresh.as<float>() + part.shard_offset);
  tensor = std::move(fresh);
  return received;
}

}  // namespace reshard::engine
