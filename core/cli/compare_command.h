#pragma once

// `PROGRAM compare`: strategies in turns on one training state, or two finished runs.

#include "cli/loaded_job.h"
#include "cli/output.h"

namespace reshard::cli {

// Returns the exit code: 0, or 130 when SIGINT or SIGTERM ended the run after some turns, whose table is printed.
int compare_command(const Request& request, Output& output);

// Two runs' JSON, as `train --json` writes it. Throws Error(config) for files that are none.
void compare_files(const Request& request, Output& output);

}  // namespace reshard::cli
