#pragma once

// MPI's answers as errors, and a barrier that ends.

#include <mpi.h>

#include <functional>

namespace reshard::comm::mpi {

// Throws Error(communication) with MPI's own words.
void check_mpi(int result, const char* call);

// Whether all ranks of `all` come within the time; meanwhile this rank sleeps between looks and calls `look`.
bool meet_all(MPI_Comm all, double seconds, const std::function<void()>& look);

}  // namespace reshard::comm::mpi
