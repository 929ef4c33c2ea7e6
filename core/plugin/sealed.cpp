#include "plugin/sealed.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "reshard/error.h"

namespace reshard::plugin {
namespace {

[[noreturn]] void fail(const char* what) {
  throw Error(ErrorCode::plugin, fmt::format("a private copy of a plugin cannot be {}: {}", what, std::strerror(errno)), {},
              "strategies are loaded from memory (memfd_create): allow it, and executing from it (sysctl vm.memfd_noexec)",
              "load.copy");
}

}  // namespace

SealedFile::SealedFile(const std::string& name, std::span<const char> bytes)
    : SealedFile(memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING)) {  // closed by ~SealedFile from here on
  if (descriptor_ < 0) fail("made");
  // Out of the way of a plugin that closes descriptors it does not own, which are low numbers as a rule.
  if (const int high = fcntl(descriptor_, F_DUPFD_CLOEXEC, 64); high >= 0) close(std::exchange(descriptor_, high));
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t count = write(descriptor_, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("written");
    done += static_cast<std::size_t>(count);
  }
  if (fcntl(descriptor_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0) fail("sealed");
  struct stat status {};
  if (fstat(descriptor_, &status) != 0) fail("looked at");
  device_ = status.st_dev, inode_ = status.st_ino;
}

SealedFile::~SealedFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

std::string SealedFile::path() const {
  return fmt::format("/proc/self/fd/{}", descriptor_);
}

bool SealedFile::is(dev_t device, ino_t inode) const {
  return device == device_ && inode == inode_;
}

}  // namespace reshard::plugin
