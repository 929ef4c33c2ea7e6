#pragma once

// `plugins list` and `plugins describe NAME`. Listing runs nothing of a plugin; describing loads that one.

#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/output.h"
#include "plugin/catalog.h"
#include "plugin/strategy.h"

namespace reshard::cli {

// A job file in `line.files` adds the folders of its [plugins].path, searched first. Throws Error(config).
void list_plugins(const CommandLine& line, const Face& face, Output& output);
void describe_plugin(const CommandLine& line, const Face& face, Output& output);

// [plugins] of the job file in `line.files`, the defaults where there is none. The rest of the file is not looked at: its
// other tables may be any program's. Throws Error(config).
Job::Plugins plugin_rules(const CommandLine& line);

// `all`: shadowed files, too, and each file's rule and SHA-256.
std::string list_text(const std::vector<plugin::SearchFolder>& folders, const std::vector<plugin::Listed>& listed,
                      bool all, const Style& style);
std::string describe_text(const plugin::StrategyInfo& info, const Style& style);

// Names of the strategies that a job without [plugins].path can use, in falling order. Never throws: no folder, no
// names.
std::vector<std::string> usable_strategies();

}  // namespace reshard::cli
