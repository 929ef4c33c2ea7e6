#pragma once

// What the loader would read of a shared object, read from the file's bytes with every bound checked.
// Threads: values only.

#include <elf.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace reshard::plugin {

// One note of owner "RESHARD".
struct ElfNote {
  uint32_t type = 0;
  std::span<const char> content;
};

struct Elf {
  uint16_t machine = 0;
  bool shared_object = false;     // ET_DYN
  bool object = false;            // ET_REL
  bool interpreter = false;       // PT_INTERP: a program
  bool dynamic = false;           // PT_DYNAMIC
  bool executable_stack = false;  // PT_GNU_STACK is missing or has X
  bool text_relocations = false, static_tls = false;
  std::vector<std::string> needed;     // names of libraries
  std::vector<std::string> run_paths;  // RPATH and RUNPATH, one folder each
  std::string_view names;              // the dynamic string table: NUL-separated
  std::vector<ElfNote> notes;
};

// Remedies that serve more than one refusal.
inline constexpr const char* kNameAnother = "name a file that reshard_add_strategy has built";
inline constexpr const char* kBuildIt = "build it with reshard_add_strategy";
inline constexpr const char* kCopyIt = "build it again, or copy it again";

// Says what is wrong with a file, as in "is empty", what to do about it, and the refusal's id. It must throw.
using Refuse = std::function<void(const std::string& what, const std::string& remedy, const char* id)>;

// Views point into `bytes`. `refuse` is called for bytes that are no 64-bit little-endian ELF file and for a file that
// ends before its headers say.
Elf read_elf(std::span<const char> bytes, const Refuse& refuse);

}  // namespace reshard::plugin
