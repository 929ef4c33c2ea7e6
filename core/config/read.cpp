#include "config/read.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include <fmt/format.h>

#include "config/document.h"
#include "config/job_tables.h"
#include "config/reader.h"
#include "reshard/error.h"

namespace reshard::config {
namespace {

constexpr std::size_t kMostBytes = std::size_t{16} << 20;  // of a job file: more is some other file

}  // namespace

std::string file_text(const std::string& path, const FileKind& kind) {
  const auto fail = [&](const std::string& what, const std::string& remedy) {
    throw Error(ErrorCode::config, what, path, remedy);
  };
  // O_NONBLOCK, so that opening a FIFO does not wait for somebody who writes; regular files do not know it.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(descriptor < 0 ? nullptr : fdopen(descriptor, "rb"),
                                                             &std::fclose);
  struct stat status {};
  if (!file || fstat(descriptor, &status) != 0) {
    const int reason = errno;
    if (descriptor >= 0 && !file) close(descriptor);
    if (reason == ENOENT) fail("there is no such " + kind.name, kind.remedy_missing);
    fail(fmt::format("cannot read the {}: {}", kind.name, std::strerror(reason)), "");
  }
  if (S_ISDIR(status.st_mode)) fail(fmt::format("the {} is a folder", kind.name), kind.remedy + " in it");
  if (!S_ISREG(status.st_mode)) fail(fmt::format("the {} is not a regular file", kind.name), kind.remedy);
  std::string text;
  char buffer[1 << 14];
  while (const std::size_t count = std::fread(buffer, 1, sizeof buffer, file.get())) {
    text.append(buffer, count);
    if (text.size() > kind.bytes_most)
      fail(fmt::format("the {} has more than {} MiB", kind.name, kind.bytes_most >> 20), "check the path");
  }
  if (std::ferror(file.get()) != 0) fail("cannot read the " + kind.name, "check the path");
  return text;
}

std::string job_text(const std::string& path) {
  return file_text(path, {.name = "job file",
                          .remedy = "give the path of a TOML file",
                          .remedy_missing = "check the path",
                          .bytes_most = kMostBytes});
}

void read_text(std::string_view text, const std::string& path, Job& job, Tables& program) {
  const Block document = parse_document(text, path);
  job.file = path;
  Reader reader(job, program, std::filesystem::path(path).parent_path().string());
  reader.read(document);
  check_lists(job);
}

void read(const std::string& path, Job& job, Tables& program) {
  read_text(job_text(path), path, job, program);
}

}  // namespace reshard::config
