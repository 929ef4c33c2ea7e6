#pragma once

// Printing a job as TOML that reads back to itself (`--print-job`).

#include <string>

#include "reshard/job.h"
#include "reshard/table.h"

namespace reshard::config {

// Every key with its doc as a comment, defaults included. Entries for units that came from the command line are printed
// as [[strategy.unit]]; fields of the job file that those beat are left out, so that the text means the same.
std::string write(const Job& job, const Tables& program);

}  // namespace reshard::config
