#pragma once

// The checks of one value against a key's rules, shared by every key type. A failed one throws Error(config) whose
// text is made here, so that all keys speak alike.

#include <cstdint>
#include <string>

#include "reshard/options.h"
#include "reshard/table.h"

namespace reshard::config {

// What an error needs besides the rules: the key's full name and the place of the value.
struct Site {
  const std::string& key;    // "optimizer.lr"
  const std::string& where;  // "job.toml:14:1"
};

// "train.steps must be an integer, not the string "3"", with what to write instead where that is clear.
[[noreturn]] void fail_type(const Site& site, const std::string& expected, const OptionValue& value);

// Bounds, and for a double that it is finite. `each`: the number is one of a list's.
void check_integer(const Site& site, const KeySpec& spec, int64_t value, int64_t lowest, int64_t highest);
void check_real(const Site& site, const KeySpec& spec, double value, bool each = false);
void check_text(const Site& site, const KeySpec& spec, const std::string& value);

// "between 0 and 8", "0 or more and below 1"; empty without bounds.
std::string bounds_text(const KeySpec& spec);

// The choices as `"a", "b" or "c"`.
std::string choices_text(const std::vector<std::string>& choices);

// The remedy for a word that is none of `known`: `did you mean "x"?`, or empty.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& known);

// Readers of one value; each throws fail_type.
int64_t integer_of(const Site& site, const OptionValue& value);
double real_of(const Site& site, const OptionValue& value, const std::string& expected = "a number");
std::string text_of(const Site& site, const KeySpec& spec, const OptionValue& value, const std::string& folder);
int64_t bytes_of(const Site& site, const OptionValue& value);

// A file or plugin of a key as PathKind says: absolute where it is a path, as it is otherwise.
std::string path_text(const std::string& text, PathKind kind, const std::string& folder);

}  // namespace reshard::config
