#pragma once

// `--processes`: the same command as processes, one per rank, started by mpirun on this machine.

#include "cli/loaded_job.h"

namespace reshard::cli {

// Becomes mpirun, which starts this program with the same words for each rank of the job. Throws Error(config) where it
// cannot be started. REQUIRES: no launcher has started this process.
[[noreturn]] void start_processes(const Request& request, Output& output);

}  // namespace reshard::cli
