#pragma once

// A value of `[strategy.options.NAME]` as the job file or the command line gave it. The core does not know what a plugin's
// options mean; it keeps each with its place, and checks it against the plugin's own table when that plugin is loaded.

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace reshard {

struct OptionValue {
  using List = std::vector<OptionValue>;
  std::variant<bool, int64_t, double, std::string, List> value;
  std::string where;  // "job.toml:14:12" or "--set strategy.options.NAME.key"
};

using OptionValues = std::map<std::string, OptionValue>;  // by key

}  // namespace reshard
