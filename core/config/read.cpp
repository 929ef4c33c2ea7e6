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

std::string file_text(const std::string& path) {
  // O_NONBLOCK, so that opening a FIFO does not wait for somebody who writes; regular files do not know it.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(descriptor < 0 ? nullptr : fdopen(descriptor, "rb"),
                                                             &std::fclose);
  struct stat status {};
  if (!file || fstat(descriptor, &status) != 0) {
    const int reason = errno;
    if (descriptor >= 0 && !file) close(descriptor);
    if (reason == ENOENT) throw Error(ErrorCode::config, "there is no such job file", path, "check the path");
    throw Error(ErrorCode::config, fmt::format("cannot read the job file: {}", std::strerror(reason)), path);
  }
  if (S_ISDIR(status.st_mode))
    throw Error(ErrorCode::config, "the job file is a folder", path, "give the path of a TOML file in it");
  if (!S_ISREG(status.st_mode))
    throw Error(ErrorCode::config, "the job file is not a regular file", path, "give the path of a TOML file");
  std::string text;
  char buffer[1 << 14];
  while (const std::size_t count = std::fread(buffer, 1, sizeof buffer, file.get())) {
    text.append(buffer, count);
    if (text.size() > kMostBytes)
      throw Error(ErrorCode::config, "the job file has more than 16 MiB", path, "check the path");
  }
  if (std::ferror(file.get()) != 0) throw Error(ErrorCode::config, "cannot read the job file", path, "check the path");
  return text;
}

}  // namespace

void read_text(std::string_view text, const std::string& path, Job& job, Tables& program) {
  const Block document = parse_document(text, path);
  job.file = path;
  Reader reader(job, program, std::filesystem::path(path).parent_path().string());
  reader.read(document);
  check_lists(job);
}

void read(const std::string& path, Job& job, Tables& program) {
  read_text(file_text(path), path, job, program);
}

}  // namespace reshard::config
