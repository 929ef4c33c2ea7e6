#pragma once

// The last line of a command's output: the next thing to try, ready to be typed.

#include <string>
#include <vector>

#include "cli/command_line.h"
#include "reshard/job.h"

namespace reshard::cli {

std::string next_line(const std::string& command);  // "next: …\n"; nothing for an empty one

// The options of `line` that make a job another one (--ranks, --unit, --set, the program's own, …; not the strategy),
// as they are typed, each with a blank before it: the next command is about the same job. REQUIRES: flags' targets are
// set.
std::string repeated_options(const Face& face, const CommandLine& line);

std::string train_hint(const Face& face, const Job& job, const CommandLine& line);

// `strategy`: as it is typed. `options`: of repeated_options().
std::string explain_hint(const Face& face, const Job& job, const std::string& strategy, const std::string& options);

// `arms` as named on the command line; with less than two, the job's strategy and others that are installed.
std::string compare_hint(const Face& face, const Job& job, const std::vector<std::string>& arms,
                         const std::string& options);

}  // namespace reshard::cli
