#pragma once

// `PROGRAM explain`: the plan and its price, before anything runs.

#include "cli/loaded_job.h"
#include "cli/output.h"

namespace reshard::cli {

// Prints everything first and then throws Error(budget) when the plan is above the budget.
void explain(const Request& request, Output& output);

}  // namespace reshard::cli
