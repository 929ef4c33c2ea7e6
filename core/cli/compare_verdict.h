#pragma once

// What two runs say: times and their paired ratios, what a step cost, and which bits are the same. Pure functions.

#include "cli/compare_run.h"
#include "reshard/compare.h"

namespace reshard::cli {

// Fills everything of `comparison` that comes out of the runs; its arms have their names, plans and promises already.
void judge(const Reference& reference, const Measured& measured, Comparison& comparison);

}  // namespace reshard::cli
