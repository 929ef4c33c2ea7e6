#pragma once

// What the command line replaced of the job file: the value that holds, and the one that the file had. Pure functions.

#include <string>
#include <vector>

#include "cli/json.h"
#include "cli/loaded_job.h"
#include "cli/output.h"

namespace reshard::cli {

struct ReplacedValue {
  std::string key;         // "mesh.ranks"
  std::string value, by;   // as TOML, and the option: `4`, "--ranks"
  std::string was, where;  // as TOML, and its place: `2`, "job.toml:7:1"
};

// In the order of the keys.
std::vector<ReplacedValue> replaced_values(const LoadedJob& loaded);

// "replaced\n  mesh.ranks = 4 (--ranks); job.toml:7:1 said 2\n"; empty when nothing was.
std::string replaced_text(const std::vector<ReplacedValue>& values, const Style& style);

// {"mesh.ranks": {"value": 4, "by": "--ranks", "was": 2, "where": "job.toml:7:1"}}.
Json replaced_json(const std::vector<ReplacedValue>& values);

}  // namespace reshard::cli
