#pragma once

// `PROGRAM train`: plan, start the ranks, run the steps, and say what it cost.

#include "cli/loaded_job.h"
#include "cli/output.h"

namespace reshard::cli {

// Returns the exit code: 0, or 130 after SIGINT or SIGTERM. Whatever is known by then is printed and written to --json
// also when an error ends the run; the error is thrown on afterwards.
int train(const Request& request, Output& output);

}  // namespace reshard::cli
