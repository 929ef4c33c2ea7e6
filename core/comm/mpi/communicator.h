#pragma once

// Ranks that are processes, on one host or several. Those of one host meet in memory that they share; between hosts MPI
// carries letters. Sums are the local communicator's, term by term in the same order, so they have its bits.
//
// Collectives are our own, because MPI's cannot be: its reductions add in an order of their own and are many times
// slower than copying through shared memory and adding from there, and what it has begun it cannot take back, so that a
// rank which gives up could not free its buffers.
//
// REQUIRES: MPI was started for MPI_THREAD_SERIALIZED at least, and nobody else calls it meanwhile.

#include <cstddef>
#include <memory>
#include <vector>

#include "comm/processes.h"

namespace reshard::comm::mpi {

struct SeatOptions {
  int ranks = 0;                // the first so many of MPI's processes; 0 = all. Only those call
  double timeout_seconds = 60;  // how long a rank waits for another one in a collective
  int threads_per_rank = 1;
  size_t streaming_bytes = 0;  // as LocalOptions says
  // For tests: processes of one machine as if they were on several, so many on each. Empty: as they are.
  std::vector<int> pretended = {};
};

// Collective over the ranks. Throws Error(communication).
std::unique_ptr<Processes> start(const SeatOptions& options);

// For tests, without MPI: ranks of one host as threads, in memory of the caller's for options.ranks ranks. prepare()
// comes before any of them, and the memory goes after all.
size_t memory_bytes(int ranks);
void prepare(void* memory, int ranks);
std::unique_ptr<Communicator> communicator_in(void* memory, int rank, const SeatOptions& options);

}  // namespace reshard::comm::mpi
