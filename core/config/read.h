#pragma once

// Reading a job file into a Job and the program's tables. Errors are Error(config) with file:line:column, the path
// printed as the user gave it.

#include <string>
#include <string_view>

#include "reshard/job.h"
#include "reshard/table.h"

namespace reshard::config {

// Reads the file over what `job` and the tables' fields hold. After an error both are half read: throw them away.
void read(const std::string& path, Job& job, Tables& program);

// The same for a text that came from `path`; relative paths in it are relative to the folder of `path`.
void read_text(std::string_view text, const std::string& path, Job& job, Tables& program);

}  // namespace reshard::config
