#pragma once

// A plugin's library in this process. Loaded once, checked once, and never unloaded: a strategy is ended logically.
// Threads: open, join and leave may be called on any threads; control() is the lock under which a library's [control]
// functions are called.

#include <reshard/plugin.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "plugin/file.h"
#include "plugin/floating_point.h"
#include "plugin/log.h"
#include "plugin/sealed.h"

namespace reshard::plugin {

class Host;

// The remedy for tables that are not what the ABI says.
inline constexpr const char* kBuildAgain = "build it again with this host's headers";

class Library {
 public:
  // The calls into a plugin during which the floating-point state is watched.
  enum class Call : uint8_t { loading, init, get_extension, create, decide, feedback, destroy, deinit };

  // Loads an inspected file's bytes, or finds them loaded: the same bytes in two files are one library. `probe`: in a child
  // process first. Throws Error(plugin). It stays for ever: hold it by reference.
  static Library& open(const FileInfo& file, bool probe, const LogFunction& log);

  const FileInfo& file() const { return file_; }
  const std::string& where() const { return where_; }  // "plugin FILE (NAME VERSION)", for errors
  const reshard_entry& entry() const { return *entry_; }
  std::mutex& control() { return control_; }

  // A user of the library comes and goes: init runs for the first, deinit after the last. What the library logs outside
  // an instance goes to the user who came first of those present. join throws Error(plugin) when init fails.
  uint64_t join(const LogFunction& log);
  void leave(uint64_t user) noexcept;

  // Calls into the plugin. When that changed the floating-point state it is restored, and said once per kind of call.
  template <class Body>
  auto call(Call kind, const LogFunction& log, const Body& body) {
    const Guard guard(*this, kind, log);
    return body();
  }

  ~Library();

 private:
  class Guard {
   public:
    Guard(Library& library, Call kind, const LogFunction& log);
    ~Guard();
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    Library& library_;
    const Call kind_;
    const LogFunction& log_;
    const FloatingPointState before_;
  };
  struct Handle;

  explicit Library(const FileInfo& file);
  void load(bool probe, const LogFunction& log);
  void check_entry() const;

  FileInfo file_;  // without its bytes
  const std::string where_;
  SealedFile sealed_;
  std::unique_ptr<Handle> handle_;
  const reshard_entry* entry_ = nullptr;

  std::mutex control_;
  int users_ = 0;  // guarded by control_
  uint64_t next_user_ = 1;

  std::mutex listeners_lock_;
  std::map<uint64_t, LogFunction> listeners_;  // by user
  std::unique_ptr<Host> host_;                 // what init gets

  std::atomic<uint32_t> reported_{0};  // bit per Call: a change of the floating-point state was said
};

}  // namespace reshard::plugin
