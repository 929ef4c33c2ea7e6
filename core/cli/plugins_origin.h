#pragma once

// Where strategies come from: `plugins paths`, `plugins why NAME`, `plugins pin NAME`. None of them runs a plugin.

#include "cli/command_line.h"
#include "cli/output.h"

namespace reshard::cli {

// Every folder that is searched, in order, with the rule that names it and how many files it holds. Throws
// Error(config).
void show_plugin_paths(const CommandLine& line, Output& output);

// Each file that the name could mean, and what that came to. Returns 0 where one is taken, else 2.
int explain_plugin(const CommandLine& line, Output& output);

// The lines of TOML that pin the strategy's bytes. Throws Error(plugin) where its file is refused for another reason than
// the lack of a pin.
void pin_plugin(const CommandLine& line, const Face& face, Output& output);

}  // namespace reshard::cli
