#pragma once

// Values of a job file as text: how they are written in TOML, and how an error names them. Pure functions.

#include <cstdint>
#include <string>
#include <string_view>

#include "reshard/options.h"

namespace reshard::config {

// A TOML basic string: quotes around it, everything escaped that needs to be.
std::string quoted_text(std::string_view text);

// The shortest text that reads back to the same double, always with a point or an exponent.
std::string number_text(double value);

// "2 GiB" in quotes where a binary unit divides it, else the plain number.
std::string bytes_value_text(int64_t bytes);

// A key as TOML needs it: bare, or in quotes.
std::string key_text(std::string_view key);

// The value as TOML, lists and their lists included.
std::string toml_text(const OptionValue& value);

// The options as a TOML inline table: `{ a = 1, b = "x" }`.
std::string inline_table_text(const OptionValues& options);

// For "must be an integer, not …": `true`, `3`, `the string "abc"`, `a list of 3`.
std::string described(const OptionValue& value);

// A copy in which the value, and each of a list, stands at `where`.
OptionValue placed_at(OptionValue value, const std::string& where);

}  // namespace reshard::config
