// Laying parameters and optimizer state out anew after shard_over changed: tensor by tensor, so that beside the shards
// no more than one tensor of one unit is ever whole. Offsets inside a unit do not depend on the shard count
// (model/layout.h), so the new shard is a plain slice of the whole.

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/executor.h"

namespace reshard::engine {

int64_t Executor::relay(const model::Mesh& mesh) {
  int64_t received = 0;
  for (int u = 0; u < unit_count(); ++u) {
    UnitMemory& unit = at(u);
    std::vector<int64_t> elements;
    for (int p = 0; p < unit.layout.parameter_count(); ++p) elements.push_back(unit.layout.elements(p));
    const model::Layout to(elements, mesh.shards());
    received += relay_tensor(unit.shard, unit.layout, to, mesh, MemoryCategory::sharded_parameters, tag(u));
    for (memory::Block& state : unit.states)
      received += relay_tensor(state, unit.layout, to, mesh, MemoryCategory::optimizer_state, tag(u));
    unit.layout = to;
    unit.fragments = to.fragments(mesh.shard_of(rank_));
  }
  mesh_ = mesh;
  shard_group_ = &groups_.of(mesh_.shard_group(rank_));
  replica_group_ = &groups_.of(mesh_.replica_group(rank_));
  partial_groups_.clear();
  return received;
}

int64_t Executor::relay_tensor(memory::Block& tensor, const model::Layout& from, const model::Layout& to,
                               const model::Mesh& mesh, MemoryCategory category, const comm::Tag& tagged) {
  if (from.whole_elements() == 0) return 0;
  const auto bytes = [](int64_t elements) { return elements * static_cast<int64_t>(sizeof(float)); };
  const int64_t shard = bytes(from.shard_elements()), new_shard = bytes(to.shard_elements());
  int64_t received = 0;
  memory::Block gathered;
  const std::byte* whole = tensor.as<std::byte>();
  if (from.shards() > 1) {
    gathered = pool_.allocate(bytes(from.whole_elements()), MemoryCategory::whole_parameters);
    received = shard * (from.shards() - 1);
    meter_.count(Transfer::relay, received);
    comm::Communicator* group = shard_group_;
    const void* mine = tensor.data();
    void* target = gathered.data();
    launch(Transfer::relay, [=] { group->all_gather(mine, static_cast<std::size_t>(shard), target, tagged); });
    stream_.synchronize();
    whole = gathered.as<std::byte>();
  }
  memory::Block fresh = pool_.allocate(new_shard, category);
  const int64_t begin = new_shard * mesh.shard_of(rank_);
  const int64_t there = std::clamp<int64_t>(bytes(from.whole_elements()) - begin, 0, new_shard);
  std::memcpy(fresh.data(), whole + begin, static_cast<std::size_t>(there));
  std::memset(fresh.as<std::byte>() + there, 0, static_cast<std::size_t>(new_shard - there));  // padding stays zero
  tensor = std::move(fresh);
  return received;
}

}  // namespace reshard::engine
