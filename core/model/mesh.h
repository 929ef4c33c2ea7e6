#pragma once

// Ranks as replicas × shards. A shard group is a run of consecutive ranks, which gathers and reduces; a replica group is
// the ranks with the same place in their shard groups, which all-reduces. Pure integers.

#include <vector>

namespace reshard::model {

class Mesh {
 public:
  // REQUIRES: shards divides ranks. (strategy/resolve turns a user's bad value into an error before.)
  Mesh(int ranks, int shards);

  int ranks() const { return ranks_; }
  int shards() const { return shards_; }
  int replicas() const { return ranks_ / shards_; }
  int shard_of(int rank) const { return rank % shards_; }
  int replica_of(int rank) const { return rank / shards_; }

  std::vector<int> shard_group(int rank) const;    // rising, with `rank`
  std::vector<int> replica_group(int rank) const;  // rising, with `rank`
  // The group of k consecutive ranks inside the shard group that holds a partial(k) copy. REQUIRES: k divides shards.
  std::vector<int> partial_group(int rank, int k) const;

 private:
  int ranks_, shards_;
};

}  // namespace reshard::model
