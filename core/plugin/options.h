#pragma once

// From what the user wrote under [strategy.options.NAME] to the typed values that a strategy is made with: checked
// against its own table, defaults filled in, every error at the option's place. Threads: values only.

#include <reshard/plugin.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "plugin/option_table.h"
#include "reshard/options.h"

namespace reshard::plugin {

// Every option of the table, by name: `table` is sorted by name. Throws Error(config). `where`: to blame for a required
// option that is absent.
std::vector<OptionSetting> check_options(const std::string& strategy, const std::vector<OptionSpec>& table,
                                         const OptionValues& values, const std::string& where);

// The place of an option as a strategy names it in an error: "also" or "also[1]". Empty when the user did not give it.
std::string place_of(const OptionValues& values, const std::string& key);

// The same values as the C table has them. Points into `table` and `settings`, which must outlive it and not change.
class SettingArray {
 public:
  SettingArray(const std::vector<OptionSpec>& table, const std::vector<OptionSetting>& settings);
  SettingArray(const SettingArray&) = delete;
  SettingArray& operator=(const SettingArray&) = delete;

  const reshard_setting* data() const { return settings_.data(); }
  uint32_t size() const { return static_cast<uint32_t>(settings_.size()); }

 private:
  std::vector<std::vector<reshard_value>> items_;
  std::vector<reshard_setting> settings_;
};

}  // namespace reshard::plugin
