#pragma once

// The last line of a command's output: the next thing to try, ready to be typed.

#include <string>
#include <vector>

#include "cli/command_line.h"
#include "reshard/job.h"

namespace reshard::cli {

std::string next_line(const std::string& command);  // "next: …\n"; nothing for an empty one

std::string train_hint(const Face& face, const Job& job);
std::string explain_hint(const Face& face, const Job& job, const std::string& strategy);
// `arms` as named on the command line; with less than two, the job's strategy and others that are installed.
std::string compare_hint(const Face& face, const Job& job, const std::vector<std::string>& arms);

}  // namespace reshard::cli
