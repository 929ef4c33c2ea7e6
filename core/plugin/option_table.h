#pragma once

// A strategy's option table, copied out of the plugin and checked, and values of options. Threads: values only.

#include <reshard/plugin.h>

#include <cstdint>
#include <string>
#include <vector>

#include "plugin/strategy.h"

namespace reshard::plugin {

// A value of an option, owned. Which member counts depends on `type`, as in reshard_value.
struct OptionSetting {
  uint32_t type = 0;
  bool given = false;
  int64_t integer = 0;
  double real = 0;
  std::string text{};
  std::vector<OptionSetting> items{};
};

struct OptionSpec {
  std::string name, doc;
  uint32_t type = 0;
  bool required = false;
  int64_t integer_min = 0, integer_max = 0;
  double real_min = 0, real_max = 0;
  std::vector<std::string> choices;
  OptionSetting fallback;

  uint32_t item_type() const { return type & ~static_cast<uint32_t>(RESHARD_LIST); }
  bool list() const { return (type & RESHARD_LIST) != 0; }
};

// Reads and checks the table of a descriptor. Throws Error(plugin) at `where`.
std::vector<OptionSpec> read_option_table(const reshard_strategy& strategy, const std::string& where);

// Why a value does not fit: `9, outside 0 … 8`, `"kep", not "keep" or "free"`; empty when it fits. Items of a list one
// by one; `value.type` is the item's.
std::string misfit(const OptionSpec& option, const OptionSetting& value);

std::string toml_text(const OptionSetting& value);  // `1`, `0.5`, `"keep"`, `"80 GiB"`, `["a", "b"]`
std::string type_text(const OptionSpec& option);    // "integer", "list of text"
std::string range_text(const OptionSpec& option);   // "0 … 8", `"keep" or "free"`, or empty

OptionInfo describe(const OptionSpec& option);

}  // namespace reshard::plugin
