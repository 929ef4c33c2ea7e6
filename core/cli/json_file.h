#pragma once

// Where JSON goes: the file of --json, or stdout. A file is written under another name in its own folder and then
// renamed, so that a write that fails or is interrupted leaves the old file as it was. What is no regular file (a pipe,
// a device) is written as it stands. Threads: one at a time per file.

#include <string>
#include <vector>

#include "cli/json.h"

namespace reshard::cli {

// Finds out before a long run that `file` can be written, and leaves it as it is; nothing to find out for "" and "-".
// `inputs`: files that the command reads, which it must not replace, under whatever name; those that do not exist count
// for nothing. Throws Error(config).
void check_writable(const std::string& file, const std::vector<std::string>& inputs = {});

// Writes `json` to the file that --json named, "-" = stdout; does nothing when it is empty. Throws Error(io).
void write_json(const std::string& file, const Json& json);

}  // namespace reshard::cli
