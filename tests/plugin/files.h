#pragma once

// Files that tests make: folders that vanish, copies of built plugins, and copies with a few bytes changed.

#include <elf.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "reshard/error.h"
#include "tests/shipped.h"

namespace reshard::tests {

inline std::string broken(const std::string& name) {
  return std::string(RESHARD_BINARY_DIR) + "/tests/misuse/" + name + ".so";
}

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string path = (std::filesystem::temp_directory_path() / "reshard.XXXXXX").string();
    if (mkdtemp(path.data()) == nullptr) ADD_FAILURE() << "no temporary folder";
    path_ = std::filesystem::canonical(path);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string path(const std::string& name = "") const {
    return name.empty() ? path_.string() : (path_ / name).string();
  }
  std::string write(const std::string& name, const std::string& bytes) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return path(name);
  }

 private:
  std::filesystem::path path_;
};

inline std::string read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

// Replaces every occurrence of `from` by `to`, of the same length; there must be one.
inline void replace_bytes(std::string& bytes, const std::string& from, const std::string& to) {
  ASSERT_EQ(from.size(), to.size());
  ASSERT_NE(bytes.find(from), std::string::npos);
  for (std::size_t at = bytes.find(from); at != std::string::npos; at = bytes.find(from, at + 1))
    bytes.replace(at, from.size(), to);
}

template <class T>
T& overlay(std::string& bytes, std::size_t offset) {
  return *reinterpret_cast<T*>(bytes.data() + offset);
}

// Calls `change` for every program header.
inline void change_segments(std::string& bytes, const std::function<void(Elf64_Phdr&)>& change) {
  const auto header = overlay<Elf64_Ehdr>(bytes, 0);
  for (std::size_t i = 0; i < header.e_phnum; ++i)
    change(overlay<Elf64_Phdr>(bytes, header.e_phoff + i * sizeof(Elf64_Phdr)));
}

// Calls `change` for every entry of the dynamic section.
inline void change_dynamic(std::string& bytes, const std::function<void(Elf64_Dyn&)>& change) {
  change_segments(bytes, [&](Elf64_Phdr& segment) {
    for (std::size_t at = 0; segment.p_type == PT_DYNAMIC && at < segment.p_filesz; at += sizeof(Elf64_Dyn))
      change(overlay<Elf64_Dyn>(bytes, segment.p_offset + at));
  });
}

// The whole text of the Error that `body` throws, its code first: "plugin: WHERE: WHAT (REMEDY)".
template <class Body>
std::string error_text(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return std::string(name(error.code())) + ": " + error.what();
  }
  return "no error";
}

}  // namespace reshard::tests
