#pragma once

// The child's side of probe.h: what `reshard-probe` is made of. One thread, at the start of a process.

#include <functional>
#include <string>
#include <vector>

namespace reshard::plugin {

// What a child does with its plugin. `bytes` are the sealed file's; it returns the report.
using ProbeTask = std::function<std::string(const std::string& bytes, const std::vector<std::string>& arguments)>;

// argv: the program, the nonce, the limits on memory and CPU seconds, then the task's arguments. Lowers the limits, runs
// the task, writes its report and the last line that says that it came to its end. Returns the exit status: 0, or 2 when the
// arguments are not such, because a person has started the program.
int run_in_sandbox(int argc, char** argv, const ProbeTask& task);

// Loads the plugin as a host does, runs init and deinit. Returns nothing, or an error's id, text and remedy, a line each.
std::string load_in_sandbox(const std::string& bytes, const std::string& path);

}  // namespace reshard::plugin
