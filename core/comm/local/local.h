#pragma once

// Ranks that are threads of one process. Each rank owns its whole copies; collectives copy and add straight from the
// other ranks' buffers, which they publish to each other. A collective allocates nothing and takes no lock.
//
// Threads: LocalRanks::communicator() may be called from any thread, once per rank; see communicator.h for the rest.
// A communicator keeps what it shares with the others alive, so LocalRanks may go first.

#include <cstddef>
#include <memory>

#include "comm/communicator.h"

namespace reshard::comm {

struct LocalOptions {
  int ranks = 1;
  double timeout_seconds = 60;  // how long a rank waits for another one in a collective
  int threads_per_rank = 1;     // 2 with a worker stream per rank: more threads than cores wait without spinning long
  size_t streaming_bytes =
      0;  // all ranks together write past the caches from here on; 0 = as this machine's caches ask
};

class Rendezvous;

class LocalRanks {
 public:
  explicit LocalRanks(const LocalOptions& options);
  ~LocalRanks();

  std::unique_ptr<Communicator> communicator(int rank);

 private:
  std::shared_ptr<Rendezvous> all_;
};

}  // namespace reshard::comm
