#pragma once

// The keys of one `[[strategy.unit]]` entry, which `--unit NAME:key=value` shares.

#include <string>
#include <vector>

#include "reshard/options.h"
#include "reshard/override.h"

namespace reshard::config {

// "match", "after_forward", "reshard_after_forward", …
const std::vector<std::string>& unit_keys();

// Checks `value` and sets the field that `key` names; its place is value.where. REQUIRES: key is one of unit_keys().
// Throws Error(config) for a bad value, for a field that is set already (after_forward in both spellings).
void set_unit_key(UnitOverride& entry, const std::string& key, const OptionValue& value);

// The value of --reshard-after-forward=k, as `option` spells it in errors.
AfterForward shrink_of(const std::string& option, const std::string& k);

// Every field's rules for an entry that was filled in code.
void check_unit(const UnitOverride& entry);

}  // namespace reshard::config
