#include "model/mesh.h"

#include <numeric>

#include "base/check.h"

namespace reshard::model {
namespace {

std::vector<int> run(int first, int count, int step = 1) {
  std::vector<int> ranks(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) ranks[static_cast<std::size_t>(i)] = first + i * step;
  return ranks;
}

}  // namespace

Mesh::Mesh(int ranks, int shards) : ranks_(ranks), shards_(shards) {
  RESHARD_CHECK(ranks >= 1 && shards >= 1 && ranks % shards == 0, "the shard group's size divides the ranks");
}

std::vector<int> Mesh::shard_group(int rank) const { return run(replica_of(rank) * shards_, shards_); }

std::vector<int> Mesh::replica_group(int rank) const { return run(shard_of(rank), replicas(), shards_); }

std::vector<int> Mesh::partial_group(int rank, int k) const {
  RESHARD_CHECK(k >= 1 && shards_ % k == 0, "a partial copy's group divides the shard group");
  return run(rank / k * k, k);
}

}  // namespace reshard::model
