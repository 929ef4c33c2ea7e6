#pragma once

// Text that people read and write: bytes with units, lists, globs, nearest names, aligned tables. Programs use it so
// that their lines look like the runtime's own. Thread rules: functions and values, for any thread.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace reshard::base {

// "0 B", "512 B", "1.5 KiB", "80 GiB": three significant digits, powers of 1024.
std::string bytes_text(int64_t bytes);

// "1,234,567".
std::string count_text(int64_t count);

// "0.42 µs", "3.1 ms", "12.0 s", "4 min 10 s".
std::string seconds_text(double seconds);

// Reads "80 GiB", "512 MiB", "1.5GB", "4096" (bytes). Empty when it is not a byte count.
std::optional<int64_t> parse_bytes(std::string_view text);

// "1, 2, 3 and 6".
std::string list_text(std::span<const std::string> items);
std::string list_text(std::span<const int> items);

// The candidate with the smallest edit distance to `name`, if that is at most a third of the longer one's length
// (and at least 1, at most 4 edits); else empty.
std::string nearest(std::string_view name, std::span<const std::string> candidates);

// True when `pattern` matches all of `name`: '*' any run of characters (dots included), '?' one, all else itself.
bool glob_match(std::string_view pattern, std::string_view name);

// True when `pattern` has '*' or '?'.
bool is_glob(std::string_view pattern);

// Columns padded to equal width, two spaces apart, each line ending in '\n', no trailing blanks.
// Columns whose cells (header apart) all start with a digit, a sign or are "-" are aligned right. Widths are counted in code points.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header) : rows_{std::move(header)} {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string text(std::string_view indent = "") const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace reshard::base
