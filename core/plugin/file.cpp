#include "plugin/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <reshard/plugin.h>

#include "plugin/elf.h"
#include "plugin/log.h"
#include "plugin/sha256.h"
#include "plugin/trust.h"
#include "reshard/error.h"
#include "reshard/text.h"

namespace reshard::plugin {
namespace {

constexpr off_t kLargestFile = off_t{256} << 20;

// What a strategy may depend on: the C and C++ runtime. Everything else it brings along, linked in.
constexpr std::array<std::string_view, 13> kRuntime = {"libc.so.6",
                                                       "libm.so.6",
                                                       "libpthread.so.0",
                                                       "libdl.so.2",
                                                       "librt.so.1",
                                                       "libgcc_s.so.1",
                                                       "libc++.so.1",
                                                       "libstdc++.so.6",
                                                       "libc++abi.so.1",
                                                       "libunwind.so.1",
                                                       "libatomic.so.1",
                                                       "ld-linux-x86-64.so.2",
                                                       "ld-linux-aarch64.so.1"};

#if defined(__x86_64__)
constexpr uint16_t kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t kMachine = EM_AARCH64;
#endif

std::string machine_name(uint16_t machine) {
  switch (machine) {
    case EM_X86_64: return "x86-64";
    case EM_AARCH64: return "AArch64";
    case EM_RISCV: return "RISC-V";
    case EM_PPC64: return "POWER";
    default: return fmt::format("machine {}", machine);
  }
}

class Inspection {
 public:
  explicit Inspection(const std::filesystem::path& path) {
    file_.path = std::filesystem::absolute(path).lexically_normal();
    where_ = "plugin " + file_.path.string();
  }

  // Opens the file once: whose it is, what is read, and what is loaded later are the same file's.
  FileInfo of_file(const Job::Plugins& rules) {
    auto bytes = std::make_shared<const std::string>(read(rules));
    file_.sha256 = sha256(*bytes);
    if (const auto doubt = doubt_of_pin(file_.path, file_.sha256, rules)) refuse(doubt->what, doubt->remedy, doubt->id);
    return of_bytes(std::move(bytes));
  }

  FileInfo of_bytes(std::shared_ptr<const std::string> bytes) {
    file_.bytes = std::move(bytes);
    const Elf elf = read_elf(*file_.bytes, [&](const std::string& what, const std::string& remedy, const char* id) {
      refuse(what, remedy, id);
    });
    check_kind(elf);
    check_note(elf);
    check_requests(elf);
    return std::move(file_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what, const std::string& remedy, const std::string& id) const {
    throw Error(ErrorCode::plugin, what, where_, remedy, id);
  }

  // O_NONBLOCK, so that a FIFO does not block: it is refused once it is known to be one.
  std::string read(const Job::Plugins& rules) {
    const int descriptor = open(file_.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0 && errno == ENOENT) refuse("does not exist", "check the path", "file.missing");
    if (descriptor < 0)
      refuse(fmt::format("cannot be opened: {}", std::strerror(errno)),
             "check its permissions and those of its folders", "file.unreadable");
    struct Closer {
      int descriptor;
      ~Closer() { close(descriptor); }
    } closer{descriptor};
    struct stat status {};
    if (fstat(descriptor, &status) != 0) refuse_unreadable();
    if (S_ISDIR(status.st_mode)) refuse("is a folder, not a file", "name a .so in it", "file.regular");
    if (!S_ISREG(status.st_mode)) refuse("is no regular file", kNameAnother, "file.regular");
    if (status.st_size == 0) refuse("is empty", kCopyIt, "file.empty");
    if (status.st_size > kLargestFile) refuse("is larger than 256 MiB", kNameAnother, "file.size");
    if (rules.trust != "any") check_owner(descriptor);

    std::string bytes(static_cast<std::size_t>(status.st_size), '\0');
    for (std::size_t done = 0; done < bytes.size();) {
      const ssize_t count = ::read(descriptor, bytes.data() + done, bytes.size() - done);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) refuse_unreadable();
      if (count == 0) bytes.resize(done);  // it shrank meanwhile
      done += static_cast<std::size_t>(count);
    }
    return bytes;
  }

  [[noreturn]] void refuse_unreadable() const {
    refuse(fmt::format("cannot be read: {}", std::strerror(errno)), kCopyIt, "file.unreadable");
  }

  // Of the file that the descriptor stands for, wherever the name leads by now.
  void check_owner(int descriptor) const {
    std::error_code error;
    const std::filesystem::path real = std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", descriptor), error);
    if (error) refuse(fmt::format("has no place that can be found: {}", error.message()), kCopyIt, "trust.owner");
    if (const auto doubt = doubt_of_owner(real)) refuse(doubt->what, doubt->remedy, doubt->id);
  }

  void check_kind(const Elf& elf) const {
    if (elf.object) refuse("is an object file, not a shared object", kBuildIt, "elf.type");
    if (!elf.shared_object || elf.interpreter) refuse("is a program, not a shared object", kBuildIt, "elf.type");
    if (elf.machine != kMachine)
      refuse(fmt::format("is built for {}; this machine is {}", machine_name(elf.machine), machine_name(kMachine)),
             "build it on this machine", "elf.machine");
    if (!elf.dynamic) refuse("is damaged: it has no dynamic section", kCopyIt, "elf.damaged");
  }

  void check_note(const Elf& elf) {
    const std::optional<reshard_note> note = own_note(elf);
    if (!note) refuse("is not a Reshard strategy: it has no RESHARD note", kBuildIt, "elf.note");
    file_.name = printable({note->name, strnlen(note->name, sizeof note->name)});
    file_.version = printable({note->version, strnlen(note->version, sizeof note->version)});
    file_.abi_major = note->abi_major, file_.abi_minor = note->abi_minor;
    file_.required_host_minor = note->required_host_minor;
    const auto letter = [](char c) { return c >= 'a' && c <= 'z'; };
    const auto allowed = [&](char c) { return letter(c) || (c >= '0' && c <= '9') || c == '_'; };
    if (file_.name.empty() || file_.name.size() >= sizeof note->name || !letter(file_.name.front()) ||
        !std::all_of(file_.name.begin(), file_.name.end(), allowed))
      refuse(fmt::format("has the strategy name \"{}\" in its note", file_.name), "names match [a-z][a-z0-9_]*",
             "entry.name");
    if (file_.version.empty() || file_.version.size() >= sizeof note->version)
      refuse("has no proper version in its note", "give it one of 1 to 31 bytes", "entry.version");
    where_ += fmt::format(" ({} {})", file_.name, file_.version);

    if (file_.required_host_minor > RESHARD_ABI_MINOR)
      refuse(fmt::format("needs strategy ABI {}.{} or newer; this host has {}", file_.abi_major,
                         file_.required_host_minor, host_abi()),
             fmt::format("use a newer host, or a plugin built for ABI {}", host_abi()), "abi.host-too-old");
    if (file_.path.stem() != file_.name || file_.path.extension() != ".so")
      refuse(fmt::format("is named {}, but its note says \"{}\"", file_.path.filename().string(), file_.name),
             fmt::format("name it {}.so", file_.name), "file.name");
    check_entry(elf);
  }

  // The note of this host's major; a file may have notes of several.
  std::optional<reshard_note> own_note(const Elf& elf) const {
    std::vector<std::string> others;
    for (const ElfNote& raw : elf.notes) {
      reshard_note note{};
      constexpr std::size_t head = offsetof(reshard_note, abi_major);
      if (raw.type != 1 || raw.content.size() < 8) continue;
      std::memcpy(&note.abi_major, raw.content.data(), std::min(sizeof note - head, raw.content.size()));
      if (note.abi_major == RESHARD_ABI_MAJOR && raw.content.size() >= sizeof note - head) return note;
      others.push_back(fmt::format("{}.{}", note.abi_major, note.abi_minor));
    }
    std::sort(others.begin(), others.end());
    if (!others.empty())
      refuse(fmt::format("is built for strategy ABI {}; this host has {}", base::list_text(others), host_abi()),
             fmt::format("use a plugin built for ABI {}", RESHARD_ABI_MAJOR), "abi.major");
    return std::nullopt;
  }

  void check_entry(const Elf& elf) const {
    constexpr std::string_view prefix = "reshard_plugin_v";
    std::vector<std::string> entries;
    for (std::size_t at = elf.names.find(prefix); at != std::string_view::npos; at = elf.names.find(prefix, at + 1)) {
      if (at > 0 && elf.names[at - 1] != '\0') continue;
      entries.emplace_back(elf.names.substr(at, elf.names.find('\0', at) - at));
    }
    const std::string own = fmt::format("{}{}", prefix, RESHARD_ABI_MAJOR);
    if (std::find(entries.begin(), entries.end(), own) != entries.end()) return;
    refuse(entries.empty() ? fmt::format("exports no {}", own)
                           : fmt::format("exports no {}, only {}", own, base::list_text(entries)),
           kBuildIt, "entry.symbol");
  }

  // What it asks of the loader that would change the process or depend on its surroundings.
  void check_requests(const Elf& elf) const {
    if (elf.executable_stack) refuse("asks for an executable stack", "link it with -z noexecstack", "elf.stack");
    if (elf.text_relocations) refuse("has relocations in its code", "compile it with -fPIC", "elf.textrel");
    if (elf.static_tls)
      refuse("needs static thread-local storage", "compile it without -ftls-model=initial-exec", "elf.static-tls");
    for (const std::string& path : elf.run_paths)
      if (!path.starts_with('/') && path != "$ORIGIN" && !path.starts_with("$ORIGIN/"))
        refuse(fmt::format("has the run path \"{}\"", path), "only absolute folders and $ORIGIN are allowed",
               "elf.runpath");
    for (const std::string& library : elf.needed)
      if (std::find(kRuntime.begin(), kRuntime.end(), library) == kRuntime.end())
        refuse(fmt::format("depends on {}; a strategy may depend on the C and C++ runtime alone", library),
               "link it in statically", "elf.needed");
  }

  FileInfo file_;
  std::string where_;
};

}  // namespace

FileInfo inspect(const std::filesystem::path& path, const Job::Plugins& rules) {
  return Inspection(path).of_file(rules);
}

FileInfo inspect_bytes(const std::filesystem::path& path, std::string bytes) {
  return Inspection(path).of_bytes(std::make_shared<const std::string>(std::move(bytes)));
}

std::string host_abi() {
  return fmt::format("{}.{}", RESHARD_ABI_MAJOR, RESHARD_ABI_MINOR);
}

}  // namespace reshard::plugin
