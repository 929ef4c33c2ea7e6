#pragma once

// What the command line says, over the job file. Parsing argv is the cli's business; these are its values.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reshard/job.h"
#include "reshard/table.h"

namespace reshard::config {

struct Overrides {
  std::vector<std::string> set;                      // --set a.b.c=value, a TOML value; text that is none is a string
  std::optional<std::string> strategy;               // --strategy NAME|path
  std::optional<int64_t> ranks, steps;               // --ranks N, --steps N
  std::vector<std::string> units;                    // --unit NAME:key=value
  std::optional<std::string> reshard_after_forward;  // --reshard-after-forward[=k]: "" or the text of k
  bool no_reshard_after_forward = false;             // --no-reshard-after-forward
};

// Applies --set in order, then --strategy, --ranks and --steps; then appends the entries for units: first the ones of
// [--no-]reshard-after-forward, then --unit in order. Throws Error(config) that names the option. What a value of the
// job file was before is kept in job.replaced.
void apply(const Overrides& overrides, Job& job, Tables& program);

// One text key of a declared table, "data.path", by an option of the program's own: "--data".
void apply_option(const std::string& option, const std::string& key, const std::string& value, Job& job,
                  Tables& program);

// A strategy that the command line names (--strategy, --strategies): a path becomes absolute, a name stays.
std::string strategy_from_command_line(const std::string& value);

}  // namespace reshard::config
