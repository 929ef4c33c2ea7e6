// The groups of a mesh: each kind partitions the ranks, and every rank finds itself in its own.

#include "model/mesh.h"

#include <algorithm>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "base/math.h"

namespace reshard::model {
namespace {

// The groups that all ranks name: rising, with the rank, of the size, and each rank in exactly one of them.
template <typename Group>
std::set<std::vector<int>> partition(int ranks, std::size_t size, const Group& group) {
  std::set<std::vector<int>> groups;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<int> mine = group(rank);
    EXPECT_EQ(mine.size(), size);
    EXPECT_TRUE(std::is_sorted(mine.begin(), mine.end()));
    EXPECT_EQ(std::count(mine.begin(), mine.end(), rank), 1);
    groups.insert(mine);
  }
  EXPECT_EQ(groups.size() * size, static_cast<std::size_t>(ranks));
  return groups;
}

TEST(Mesh, GroupsPartitionTheRanks) {
  for (const int ranks : {1, 2, 3, 4, 6, 8, 12, 16, 30})
    for (const int shards : base::divisors(ranks)) {
      const Mesh mesh(ranks, shards);
      EXPECT_EQ(mesh.replicas() * mesh.shards(), ranks);
      const auto shard_groups =
          partition(ranks, static_cast<std::size_t>(shards), [&](int rank) { return mesh.shard_group(rank); });
      for (const std::vector<int>& group : shard_groups)
        EXPECT_EQ(group.back() - group.front(), shards - 1);  // consecutive
      partition(ranks, static_cast<std::size_t>(mesh.replicas()), [&](int rank) { return mesh.replica_group(rank); });
      for (int rank = 0; rank < ranks; ++rank) {
        const std::vector<int> group = mesh.shard_group(rank);
        EXPECT_EQ(group[static_cast<std::size_t>(mesh.shard_of(rank))], rank);
        EXPECT_EQ(mesh.replica_group(rank)[static_cast<std::size_t>(mesh.replica_of(rank))], rank);
        for (const int other : mesh.replica_group(rank)) EXPECT_EQ(mesh.shard_of(other), mesh.shard_of(rank));
        for (const int k : base::divisors(shards)) {
          const std::vector<int> part = mesh.partial_group(rank, k);
          EXPECT_EQ(part.size(), static_cast<std::size_t>(k));
          EXPECT_TRUE(std::includes(group.begin(), group.end(), part.begin(), part.end()));
          EXPECT_EQ(part[static_cast<std::size_t>(mesh.shard_of(rank) % k)], rank);
        }
      }
    }
}

TEST(Mesh, AnExample) {
  const Mesh mesh(8, 4);
  EXPECT_EQ(mesh.shard_group(5), (std::vector<int>{4, 5, 6, 7}));
  EXPECT_EQ(mesh.replica_group(5), (std::vector<int>{1, 5}));
  EXPECT_EQ(mesh.partial_group(5, 2), (std::vector<int>{4, 5}));
  EXPECT_EQ(mesh.partial_group(7, 2), (std::vector<int>{6, 7}));
}

TEST(MeshDeathTest, RefusesWhatDoesNotDivide) {
  EXPECT_DEATH(Mesh(4, 3), "the shard group's size divides the ranks");
  EXPECT_DEATH(Mesh(8, 4).partial_group(0, 3), "a partial copy's group divides the shard group");
}

}  // namespace
}  // namespace reshard::model
