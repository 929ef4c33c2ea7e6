#include "plugin/library.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <filesystem>
#include <system_error>
#include <vector>

#define BOOST_DLL_USE_STD_FS
#include <fmt/format.h>
#include <boost/dll/shared_library.hpp>

#include "plugin/host.h"
#include "plugin/probe.h"
#include "plugin/status.h"
#include "reshard/error.h"

namespace reshard::plugin {
namespace {

// Every library of this process, in the order of loading. Libraries of a process are a fact of the process, so this
// list is one too; it is never destroyed, because nothing is unloaded, not even at exit.
struct Resident {
  std::mutex lock;
  std::vector<std::unique_ptr<Library>> libraries;
};

Resident& resident() {
  static auto* const list = new Resident;
  return *list;
}

const char* word(Library::Call kind) {
  switch (kind) {
    case Library::Call::loading: return "while it was loaded";
    case Library::Call::init: return "in init";
    case Library::Call::create: return "in create";
    case Library::Call::decide: return "in decide";
    case Library::Call::get_extension: return "in get_extension";
    case Library::Call::feedback: return "in feedback";
    case Library::Call::destroy: return "in destroy";
    case Library::Call::deinit: return "in deinit";
  }
  return "";
}

// The loader's own words, made short where the cause is known.
[[noreturn]] void refuse_loading(const std::string& where, std::string text) {
  const std::size_t missing = text.find(": cannot open shared object file");
  if (missing != std::string::npos)
    throw Error(ErrorCode::plugin, fmt::format("depends on {}, which is not on this machine", text.substr(0, missing)),
                where, "install it, or link it in statically", "load.dependency");
  constexpr std::string_view undefined = "undefined symbol: ";
  if (const std::size_t at = text.find(undefined); at != std::string::npos) {
    const std::string symbol = text.substr(at + undefined.size());
    throw Error(ErrorCode::plugin,
                fmt::format("imports {}, which nothing provides", symbol.substr(0, symbol.find(','))), where,
                "link it with -z defs to see this when it is built", "load.symbol");
  }
  throw Error(ErrorCode::plugin, fmt::format("cannot be loaded: {}", text.empty() ? "no reason given" : text), where,
              kBuildAgain, "load.failed");
}

}  // namespace

struct Library::Handle {
  boost::dll::shared_library library;
};

Library::Guard::Guard(Library& library, Call kind, const LogFunction& log)
    : library_(library), kind_(kind), log_(log), before_(FloatingPointState::read()) {}

Library::Guard::~Guard() {
  const FloatingPointState after = FloatingPointState::read();
  if (after == before_) return;
  before_.write();
  const uint32_t bit = 1u << static_cast<uint32_t>(kind_);
  if ((library_.reported_.fetch_or(bit) & bit) != 0 || !log_) return;
  try {
    log_(LogLevel::warn, library_.file_.name,
         fmt::format("{} changed how this thread computes {}: {} → {}; restored", library_.where_, word(kind_),
                     before_.text(), after.text()));
  } catch (...) {  // the line is lost, the state is restored
  }
}

Library::Library(const FileInfo& file)
    : file_(file),
      where_(fmt::format("plugin {} ({} {})", file.path.string(), file.name, file.version)),
      sealed_(file.name + ".so", *file.bytes),
      handle_(std::make_unique<Handle>()) {
  file_.bytes.reset();
}

Library::~Library() = default;

Library& Library::open(const FileInfo& file, bool probe, const LogFunction& log) {
  Resident& all = resident();
  const std::lock_guard lock(all.lock);
  for (const auto& library : all.libraries) {
    if (library->file_.sha256 != file.sha256) continue;
    if (library->file_.path != file.path && log)
      log(LogLevel::info, file.name,
          fmt::format("{} has the same bytes as {}: they are one strategy", file.path.string(),
                      library->file_.path.string()));
    return *library;
  }
  std::unique_ptr<Library> library(new Library(file));
  library->load(probe, log);
  all.libraries.push_back(std::move(library));
  return *all.libraries.back();
}

void Library::load(bool probe, const LogFunction& log) {
  if (probe) probe_loading(sealed_, file_.path, where_);
  // The error code that Boost gives is always the same one; the loader's own text says what is wrong.
  std::error_code error;
  std::string reason;
  call(Call::loading, log, [&] {
    handle_->library.load(sealed_.path(), boost::dll::load_mode::rtld_now | boost::dll::load_mode::rtld_local, error);
    if (error)
      if (const char* text = dlerror()) reason = text;
  });
  if (error) refuse_loading(where_, reason);
  if (!handle_->library.has("reshard_plugin_v1"))
    throw Error(ErrorCode::plugin, "has no reshard_plugin_v1 that can be read", where_, kBuildAgain, "entry.symbol");
  entry_ = &handle_->library.get<const reshard_entry>("reshard_plugin_v1");
  check_entry();
  host_ = std::make_unique<Host>(file_.name, [this](LogLevel level, std::string_view strategy, std::string_view line) {
    const std::lock_guard lock(listeners_lock_);
    for (const auto& [user, listener] : listeners_)
      if (listener) return listener(level, strategy, line);
  });
}

void Library::check_entry() const {
  const auto refuse = [&](const char* id, const std::string& what) {
    throw Error(ErrorCode::plugin, what, where_, kBuildAgain, id);
  };
  // The symbol must lie in this very file: a dependency could export one too.
  Dl_info owner{};
  struct stat status {};
  if (dladdr(entry_, &owner) == 0 || owner.dli_fname == nullptr || stat(owner.dli_fname, &status) != 0 ||
      !sealed_.is(status.st_dev, status.st_ino))
    refuse("entry.owner", fmt::format("does not define reshard_plugin_v1 itself; it is found in {}",
                       owner.dli_fname == nullptr ? "no file" : owner.dli_fname));
  if (entry_->magic != RESHARD_MAGIC)
    refuse("entry.magic", fmt::format("has an entry that is not initialised: magic {:#x}, not {:#x}", entry_->magic, RESHARD_MAGIC));
  if (entry_->struct_size < sizeof(reshard_entry))
    refuse("entry.size", fmt::format("has an entry of {} bytes; ABI 1.0 has {}", entry_->struct_size, sizeof(reshard_entry)));
  if (entry_->abi_major != file_.abi_major || entry_->abi_minor != file_.abi_minor ||
      entry_->required_host_minor != file_.required_host_minor)
    refuse("entry.versions", fmt::format("contradicts itself: its note says ABI {}.{}, at least {}.{}; its entry {}.{}, at least {}.{}",
                       file_.abi_major, file_.abi_minor, file_.abi_major, file_.required_host_minor, entry_->abi_major,
                       entry_->abi_minor, entry_->abi_major, entry_->required_host_minor));
}

uint64_t Library::join(const LogFunction& log) {
  const std::lock_guard lock(control_);
  const uint64_t user = next_user_++;
  {
    const std::lock_guard listeners(listeners_lock_);
    listeners_.emplace(user, log);
  }
  if (users_ == 0 && entry_->init != nullptr) {
    Failure failure;
    const int32_t status = call(Call::init, log, [&] { return entry_->init(host_->table(), failure.raw()); });
    if (status != RESHARD_OK) {
      const std::lock_guard listeners(listeners_lock_);
      listeners_.erase(user);
      throw Error(ErrorCode::plugin, "cannot be used: " + failure.text("init", status), where_,
                  "see what the strategy's documentation says of it", "load.init");
    }
  }
  ++users_;
  return user;
}

void Library::leave(uint64_t user) noexcept {
  const std::lock_guard lock(control_);
  if (--users_ == 0 && entry_->deinit != nullptr) {
    const LogFunction silent;
    call(Call::deinit, silent, [&] { entry_->deinit(); });
  }
  const std::lock_guard listeners(listeners_lock_);
  listeners_.erase(user);
}

}  // namespace reshard::plugin
