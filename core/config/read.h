#pragma once

// Reading a job file into a Job and the program's tables. Errors are Error(config) with file:line:column, the path
// printed as the user gave it.

#include <cstddef>
#include <string>
#include <string_view>

#include "reshard/job.h"
#include "reshard/table.h"

namespace reshard::config {

// What a file that the user names should be, for errors: "there is no such job file", "the job file is a folder".
struct FileKind {
  std::string name;            // "job file"
  std::string remedy;          // "give the path of a TOML file"
  std::string remedy_missing;  // "check the path"
  std::size_t bytes_most = 0;  // more is some other file
};

// The text of a regular file. Anything else is refused and never waited for: a FIFO, a device, a folder.
std::string file_text(const std::string& path, const FileKind& kind);
std::string job_text(const std::string& path);

// Reads the file over what `job` and the tables' fields hold. After an error both are half read: throw them away.
void read(const std::string& path, Job& job, Tables& program);

// The same for a text that came from `path`; relative paths in it are relative to the folder of `path`.
void read_text(std::string_view text, const std::string& path, Job& job, Tables& program);

}  // namespace reshard::config
