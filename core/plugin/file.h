#pragma once

// What a strategy's file is, read from its bytes: nothing of it is run and the loader is not asked. A file that passes
// is complete, for this machine, and says that it is a strategy for this host. Threads: no state, any thread.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace reshard::plugin {

struct FileInfo {
  std::filesystem::path path;  // absolute
  uint64_t device = 0, inode = 0;
  std::string name, version;  // of the strategy, from the note; the name is the file's stem
  uint16_t abi_major = 0, abi_minor = 0, required_host_minor = 0;
};

// Throws Error(plugin) at "plugin PATH": there is no such file, it is no strategy, it is for another machine or another
// ABI, it is damaged, or it asks the loader for something that a strategy may not have.
FileInfo inspect(const std::filesystem::path& path);

// "1.0": this host's version of the ABI.
std::string host_abi();

}  // namespace reshard::plugin
