#pragma once

// What a strategy's file is, read from its bytes: nothing of it is run and the loader is not asked. A file that passes
// is complete, for this machine, and says that it is a strategy for this host. Threads: no state, any thread.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "reshard/job.h"

namespace reshard::plugin {

struct FileInfo {
  std::filesystem::path path;  // absolute
  std::string sha256;          // of the whole file; empty from inspect_bytes
  std::shared_ptr<const std::string> bytes;  // of the whole file: what was inspected is what is loaded
  std::string name, version;  // of the strategy, from the note; the name is the file's stem
  uint16_t abi_major = 0, abi_minor = 0, required_host_minor = 0;
};

// Throws Error(plugin) at "plugin PATH", with an id: there is no such file, `rules` do not trust it, it is no strategy, it
// is for another machine or another ABI, it is damaged, or it asks the loader for something that a strategy may not have.
FileInfo inspect(const std::filesystem::path& path, const Job::Plugins& rules = {});

// The same of bytes that are at hand, which says nothing of whose they are. `path` is what errors and the name's check
// go by.
FileInfo inspect_bytes(const std::filesystem::path& path, std::string bytes);

// "1.0": this host's version of the ABI.
std::string host_abi();

}  // namespace reshard::plugin
