#include "cli/report_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "reshard/error.h"

namespace reshard::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 40;  // from name to name, as the system has it
constexpr int kMostNames = 100;

// How a report that cannot be written is told.
struct Failing {
  ErrorCode code;
  ReportKind kind;

  [[noreturn]] void fail(int reason, const std::string& where, const std::string& remedy = "") const {
    throw Error(code, fmt::format("cannot write the {}: {}", kind.name, std::strerror(reason)), where, remedy);
  }
};

// What a name stands for. `replaced`: a regular file, or none yet; else it is written as it stands.
struct Target {
  fs::path file;  // behind all links: a rename must not replace a link
  bool replaced = true;
  std::optional<mode_t> mode = {};  // of the file that is there
};

// Throws as `failing` says where nothing can be written under that name.
Target target_of(const std::string& name, const Failing& failing) {
  Target target{name};
  struct stat status {};
  if (stat(name.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) failing.fail(EISDIR, name, fmt::format("name a file of {}", failing.kind.option));
    if (access(name.c_str(), W_OK) != 0) failing.fail(errno, name);
    target.replaced = S_ISREG(status.st_mode);
    target.mode = status.st_mode & 07777;
  }
  std::error_code error;
  for (int i = 0; i < kMostLinks && target.replaced && fs::is_symlink(target.file, error); ++i)
    target.file = target.file.parent_path() / fs::read_symlink(target.file, error);
  return target;
}

// A file beside the target that takes its place, or is gone again.
class NewFile {
 public:
  NewFile(const Target& target, const std::string& shown, const Failing& failing) {
    int descriptor = -1;
    for (int i = 0; i < kMostNames && descriptor < 0; ++i) {
      path_ = target.file.parent_path() / fmt::format(".reshard-{}-{}.tmp", getpid(), i);
      descriptor = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (descriptor < 0 && errno != EEXIST) break;
    }
    if (descriptor < 0) failing.fail(errno, shown, fmt::format("check the folder of {}", failing.kind.option));
    file_ = fdopen(descriptor, "wb");
    if (file_ == nullptr) {
      const int reason = errno;
      close(descriptor), unlink(path_.c_str());
      failing.fail(reason, shown);
    }
    if (target.mode) fchmod(descriptor, *target.mode);  // another's rights are kept where the system allows it
  }
  ~NewFile() {
    if (file_ != nullptr) std::fclose(file_);
    if (!path_.empty()) unlink(path_.c_str());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  // False: it could not, and errno says why.
  bool write(const std::string& text) {
    return std::fwrite(text.data(), 1, text.size(), file_) == text.size() && std::fflush(file_) == 0 &&
           fsync(fileno(file_)) == 0;
  }
  bool take_place_of(const fs::path& file) {
    if (std::fclose(std::exchange(file_, nullptr)) != 0 || rename(path_.c_str(), file.c_str()) != 0) return false;
    path_.clear();
    return true;
  }

 private:
  fs::path path_;
  std::FILE* file_ = nullptr;
};

bool is_regular_file_of(std::FILE* stream, const std::string& name) {
  struct stat one {
  }, other{};
  return fstat(fileno(stream), &one) == 0 && stat(name.c_str(), &other) == 0 && S_ISREG(one.st_mode) &&
         one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

bool write_stream(std::FILE* out, const std::string& text) {
  return std::fwrite(text.data(), 1, text.size(), out) == text.size() && std::fflush(out) == 0;
}

}  // namespace

void check_writable(const std::string& file, const std::vector<std::string>& inputs, ReportKind kind) {
  if (file.empty() || file == "-") return;
  std::error_code error;
  for (const std::string& input : inputs)
    if (!input.empty() && fs::equivalent(file, input, error) && !error)
      throw Error(ErrorCode::config, fmt::format("{} would replace {}, which this command reads", kind.option, input),
                  file, "name another file");
  for (std::FILE* stream : {stdout, stderr})
    if (is_regular_file_of(stream, file))
      throw Error(ErrorCode::config,
                  fmt::format("{} names the file that {} goes to", kind.option, stream == stdout ? "stdout" : "stderr"),
                  file, fmt::format("name another file, or give {} - for the {} alone", kind.option, kind.name));
  const Failing failing{ErrorCode::config, kind};
  const Target target = target_of(file, failing);
  if (target.replaced) NewFile(target, file, failing);
}

void write_report(const std::string& file, const std::string& text, ReportKind kind) {
  if (file.empty()) return;
  const Failing failing{ErrorCode::io, kind};
  if (file == "-") {
    if (!write_stream(stdout, text)) failing.fail(errno, "stdout");
    return;
  }
  const Target target = target_of(file, failing);
  if (target.replaced) {
    NewFile written(target, file, failing);
    if (!written.write(text) || !written.take_place_of(target.file)) failing.fail(errno, file);
    return;
  }
  std::FILE* out = std::fopen(file.c_str(), "wb");
  if (out == nullptr) failing.fail(errno, file);
  const bool written = write_stream(out, text);
  const int reason = errno;
  std::fclose(out);
  if (!written) failing.fail(reason, file);
}

void write_json(const std::string& file, const Json& json) {
  if (!file.empty()) write_report(file, json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n", kJson);
}

}  // namespace reshard::cli
