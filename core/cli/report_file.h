#pragma once

// Where reports for other programs go: the file of --json or --junit, or stdout. A file is written under another name
// in its own folder and then renamed, so that a write that fails or is interrupted leaves the old file as it was. What
// is no regular file (a pipe, a device) is written as it stands. Threads: one at a time per file.

#include <string>
#include <vector>

#include "cli/json.h"

namespace reshard::cli {

// What a report is, for messages.
struct ReportKind {
  const char* option;
  const char* name;
};
inline constexpr ReportKind kJson{"--json", "JSON"};
inline constexpr ReportKind kJunit{"--junit", "JUnit report"};

// Finds out before a long run that `file` can be written, and leaves it as it is; nothing to find out for "" and "-".
// `inputs`: files that the command reads, which it must not replace, under whatever name; those that do not exist count
// for nothing. Throws Error(config).
void check_writable(const std::string& file, const std::vector<std::string>& inputs = {}, ReportKind kind = kJson);

// Writes `text` to the file that the option named, "-" = stdout; does nothing when it is empty. Throws Error(io).
void write_report(const std::string& file, const std::string& text, ReportKind kind);

// The same with JSON, indented by two.
void write_json(const std::string& file, const Json& json);

}  // namespace reshard::cli
