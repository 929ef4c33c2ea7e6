#pragma once

// Ranks that are processes on several hosts. Those of one host meet in memory that they share; between hosts MPI
// carries letters. Sums are the local communicator's, term by term in the same order, so they have its bits.
//
// Collectives are our own, because MPI's cannot be: its reductions add in an order of their own and are many times
// slower than copying through shared memory and adding from there, and what it has begun it cannot take back, so that a
// rank which gives up could not free its buffers.
//
// REQUIRES: MPI was started for MPI_THREAD_SERIALIZED at least, and nobody else calls it meanwhile.

#include <memory>
#include <vector>

#include "comm/processes.h"

namespace reshard::comm::hosts {

struct SeatOptions {
  int ranks = 0;                // the first so many of MPI's processes; 0 = all. Only those call
  double timeout_seconds = 60;  // how long a rank waits for another one in a collective
  int threads_per_rank = 1;
  size_t streaming_bytes = 0;  // as LocalOptions says
  // For tests: processes of one machine as if they were on several, so many on each. Empty: as they are.
  std::vector<int> pretended = {};
};

// Whether MPI's processes are on several hosts. Collective over all of them.
bool are_several();

// Collective over the ranks. Throws Error(communication).
std::unique_ptr<Processes> start(const SeatOptions& options);

}  // namespace reshard::comm::hosts
