#pragma once

// Collectives of processes of one host, through a board: data go from a rank's memory into its mailbox and from there
// into the others' memory, a chunk at a time. Sums are the local communicator's, term by term in the same order.

#include <memory>
#include <vector>

#include "comm/mpi/participant.h"

namespace reshard::comm::mpi {

// Of this process among all ranks of the board. Throws Error(communication) where the board has no room for a group.
std::unique_ptr<Communicator> make_window_communicator(std::shared_ptr<const Terms> terms);

}  // namespace reshard::comm::mpi
