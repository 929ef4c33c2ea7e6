#pragma once

// A child process that runs a plugin's code first: whatever that does to its process, it does it there. The child is the
// program `reshard-probe`, never the user's own, whose main would start training.
// Threads: any; a child is one call's own.

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "plugin/sealed.h"

namespace reshard::plugin {

// The descriptors that a child finds open, apart from the usual three.
inline constexpr int kProbePlugin = 3;  // the sealed file
inline constexpr int kProbeReport = 4;  // a pipe: what it writes there is the report

struct ProbeLimits {
  std::chrono::milliseconds time{20'000};
  int64_t memory_bytes = int64_t{4} << 30;  // of address space; not under a sanitizer, which maps terabytes
};

// How a child ended.
struct ProbeResult {
  enum class End { completed, crashed, hung, exited_early, not_started };
  End end = End::not_started;
  std::string report;   // completed: what it wrote
  std::string output;   // of stdout and stderr, the first 64 KiB
  // crashed: the signal; exited_early: the exit status; not clean: the exit status, or minus the signal
  int status = 0;
  bool clean = true;           // completed: it then ended with 0, as it should
  std::string reason, remedy;  // not_started
  double seconds = 0;

  // "crashed: Segmentation fault", "did not end within 20 s", "exited with 0 before it had finished"; "" = completed.
  std::string text(const ProbeLimits& limits) const;
  // Completed, but not clean: "crashed: Aborted", "exited with 3".
  std::string exit_text() const;
};

// The probe's own path, or an empty one: beside the running program, in lib(exec) beside its folder, where it was built or
// installed. RESHARD_PROBE names another one.
std::filesystem::path probe_program();

// Runs `reshard-probe ARGUMENTS…` with the plugin, and waits for it. A result is `completed` only when the child has
// written its last line, which a plugin that ends the process cannot.
ProbeResult run_probe(const SealedFile& plugin, const std::vector<std::string>& arguments, const ProbeLimits& limits = {});

// Loads the plugin in a child, runs init and deinit, and throws Error(plugin) at `where` if that goes wrong in any way.
void probe_loading(const SealedFile& plugin, const std::filesystem::path& file, const std::string& where);

}  // namespace reshard::plugin
