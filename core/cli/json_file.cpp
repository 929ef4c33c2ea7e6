#include "cli/json_file.h"

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

[[noreturn]] void fail(ErrorCode code, int reason, const std::string& where, const std::string& remedy = "") {
  throw Error(code, fmt::format("cannot write the JSON: {}", std::strerror(reason)), where, remedy);
}

// What a name stands for. `replaced`: a regular file, or none yet; else it is written as it stands.
struct Target {
  fs::path file;  // behind all links: a rename must not replace a link
  bool replaced = true;
  std::optional<mode_t> mode = {};  // of the file that is there
};

// Throws Error(`code`) where nothing can be written under that name.
Target target_of(const std::string& name, ErrorCode code) {
  Target target{name};
  struct stat status {};
  if (stat(name.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) fail(code, EISDIR, name, "name a file of --json");
    if (access(name.c_str(), W_OK) != 0) fail(code, errno, name);
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
  NewFile(const Target& target, const std::string& shown, ErrorCode code) {
    int descriptor = -1;
    for (int i = 0; i < kMostNames && descriptor < 0; ++i) {
      path_ = target.file.parent_path() / fmt::format(".reshard-{}-{}.json", getpid(), i);
      descriptor = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (descriptor < 0 && errno != EEXIST) break;
    }
    if (descriptor < 0) fail(code, errno, shown, "check the folder of --json");
    file_ = fdopen(descriptor, "wb");
    if (file_ == nullptr) {
      const int reason = errno;
      close(descriptor), unlink(path_.c_str());
      fail(code, reason, shown);
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

void check_writable(const std::string& file, const std::vector<std::string>& inputs) {
  if (file.empty() || file == "-") return;
  std::error_code error;
  for (const std::string& input : inputs)
    if (!input.empty() && fs::equivalent(file, input, error) && !error)
      throw Error(ErrorCode::config, fmt::format("--json would replace {}, which this command reads", input), file,
                  "name another file");
  for (std::FILE* stream : {stdout, stderr})
    if (is_regular_file_of(stream, file))
      throw Error(ErrorCode::config,
                  fmt::format("--json names the file that {} goes to", stream == stdout ? "stdout" : "stderr"), file,
                  "name another file, or give --json - for the JSON alone");
  const Target target = target_of(file, ErrorCode::config);
  if (target.replaced) NewFile(target, file, ErrorCode::config);
}

void write_json(const std::string& file, const Json& json) {
  if (file.empty()) return;
  const std::string text = json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  if (file == "-") {
    if (!write_stream(stdout, text)) fail(ErrorCode::io, errno, "stdout");
    return;
  }
  const Target target = target_of(file, ErrorCode::io);
  if (target.replaced) {
    NewFile written(target, file, ErrorCode::io);
    if (!written.write(text) || !written.take_place_of(target.file)) fail(ErrorCode::io, errno, file);
    return;
  }
  std::FILE* out = std::fopen(file.c_str(), "wb");
  if (out == nullptr) fail(ErrorCode::io, errno, file);
  const bool written = write_stream(out, text);
  const int reason = errno;
  std::fclose(out);
  if (!written) fail(ErrorCode::io, reason, file);
}

}  // namespace reshard::cli
