#pragma once

// Bytes as a file of their own that nobody can change any more: what was checked is what is loaded, whatever happens to
// the file on disk. Threads: values only.

#include <sys/types.h>

#include <span>
#include <string>

namespace reshard::plugin {

class SealedFile {
 public:
  // `name` is what /proc shows of it. Throws Error(plugin).
  SealedFile(const std::string& name, std::span<const char> bytes);
  ~SealedFile();
  SealedFile(const SealedFile&) = delete;
  SealedFile& operator=(const SealedFile&) = delete;

  int descriptor() const { return descriptor_; }  // closed when this is destroyed
  std::string path() const;                       // in /proc, for a loader in this process
  bool is(dev_t device, ino_t inode) const;

 private:
  explicit SealedFile(int descriptor) : descriptor_(descriptor) {}

  int descriptor_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace reshard::plugin
