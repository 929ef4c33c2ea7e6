#pragma once

// What the command line says, over the job file. Parsing argv is the cli's business; these are its values.

#include <cstddef>
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
  std::size_t units_before =
      0;  // how many of `units` were typed before [--no-]reshard-after-forward: the later glob wins

  // A text key of a declared table, "data.path", by an option of the program's own: "--data".
  struct KeyOption {
    std::string option, key, value;
  };
  std::vector<KeyOption> keys;
};

// Applies --set in order, then --strategy, --ranks, --steps and the program's own options; then appends the entries for
// units in the order in which they were typed. Of the command line no word is dropped
// for another: what gives a key, or a unit's field, two values is an error that names both. Throws Error(config) that
// names the option. What a value of the job file was before is kept in job.replaced.
void apply(const Overrides& overrides, Job& job, Tables& program);

// A strategy that the command line names (--strategy, --strategies): a path becomes absolute, a name stays.
std::string strategy_from_command_line(const std::string& value);

}  // namespace reshard::config
