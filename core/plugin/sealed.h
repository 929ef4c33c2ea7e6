#pragma once

// Bytes as a file of their own that nobody can change any more: what was checked is what is loaded, whatever happens to
// the file on disk. Threads: values only.

#include <span>
#include <string>
#include <sys/types.h>

namespace reshard::plugin {

class SealedFile {
 public:
  // `name` is what /proc shows of it. Throws Error(plugin).
  SealedFile(const std::string& name, std::span<const char> bytes);
  ~SealedFile();
  SealedFile(SealedFile&& other) noexcept;
  SealedFile& operator=(SealedFile&&) = delete;

  int descriptor() const { return descriptor_; }  // closed when this is destroyed
  std::string path() const;                       // in /proc, for a loader in this process
  bool is(dev_t device, ino_t inode) const;

 private:
  int descriptor_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace reshard::plugin
