#include "reshard/text.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

namespace reshard::base {
namespace {

std::size_t code_points(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

// Insertions, deletions, replacements, and swaps of neighbours, which people type most.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i)
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = i + j;
        continue;
      }
      const std::size_t replace = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  return cost[a.size()][b.size()];
}

std::string significant(double value) {
  if (value >= 100) return fmt::format("{:.0f}", value);
  std::string text = fmt::format("{:.{}f}", value, value >= 10 ? 1 : 2);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text;
}

}  // namespace

std::string bytes_text(int64_t bytes) {
  static constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes < 0 ? -bytes : bytes);
  std::size_t unit = 0;
  while (value >= 1023.5 && unit + 1 < std::size(units)) value /= 1024, ++unit;
  return fmt::format("{}{} {}", bytes < 0 ? "-" : "", significant(value), units[unit]);
}

std::string count_text(int64_t count) {
  std::string text = std::to_string(count);
  for (int at = static_cast<int>(text.size()) - 3; at > (count < 0 ? 1 : 0); at -= 3)
    text.insert(static_cast<std::size_t>(at), ",");
  return text;
}

std::string seconds_text(double seconds) {
  if (!std::isfinite(seconds)) return "-";
  if (seconds >= 60) {
    const auto whole = static_cast<int64_t>(std::llround(seconds));
    return fmt::format("{} min {} s", whole / 60, whole % 60);
  }
  if (seconds >= 1) return significant(seconds) + " s";
  if (seconds >= 1e-3) return significant(seconds * 1e3) + " ms";
  return significant(seconds * 1e6) + " µs";
}

std::optional<int64_t> parse_bytes(std::string_view text) {
  static constexpr std::pair<std::string_view, double> units[] = {{"", 1},
                                                                  {"B", 1},
                                                                  {"KiB", 1024.0},
                                                                  {"MiB", 1048576.0},
                                                                  {"GiB", 1073741824.0},
                                                                  {"TiB", 1099511627776.0},
                                                                  {"PiB", 0x1p50},
                                                                  {"EiB", 0x1p60},
                                                                  {"kB", 1e3},
                                                                  {"KB", 1e3},
                                                                  {"MB", 1e6},
                                                                  {"GB", 1e9},
                                                                  {"TB", 1e12}};
  double value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc{} || !(value >= 0)) return std::nullopt;  // "nan" and "inf" are numbers to from_chars
  std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  for (const auto& [word, factor] : units)
    if (unit == word) {
      const double bytes = value * factor;
      if (bytes >= 9.2e18) return std::nullopt;
      return static_cast<int64_t>(std::llround(bytes));
    }
  return std::nullopt;
}

std::string list_text(std::span<const std::string> items) {
  std::string text;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) text += i + 1 == items.size() ? " and " : ", ";
    text += items[i];
  }
  return text;
}

std::string list_text(std::span<const int> items) {
  std::vector<std::string> words;
  for (const int item : items) words.push_back(std::to_string(item));
  return list_text(words);
}

std::string nearest(std::string_view name, std::span<const std::string> candidates) {
  std::string best;
  std::size_t best_distance = 5;
  for (const std::string& candidate : candidates) {
    const std::size_t limit = std::max<std::size_t>(1, std::max(name.size(), candidate.size()) / 3);
    const std::size_t distance = edit_distance(name, candidate);
    if (distance <= limit && distance < best_distance) best = candidate, best_distance = distance;
  }
  return best;
}

bool is_glob(std::string_view pattern) {
  return pattern.find_first_of("*?") != std::string_view::npos;
}

bool glob_match(std::string_view pattern, std::string_view name) {
  std::size_t p = 0, n = 0, star = std::string_view::npos, resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p, ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::string TextTable::text(std::string_view indent) const {
  std::size_t columns = 0;
  for (const auto& row : rows_) columns = std::max(columns, row.size());
  std::vector<std::size_t> width(columns, 0);
  std::vector<bool> right(columns, rows_.size() > 1);
  for (std::size_t r = 0; r < rows_.size(); ++r)
    for (std::size_t c = 0; c < rows_[r].size(); ++c) {
      const std::string& cell = rows_[r][c];
      width[c] = std::max(width[c], code_points(cell));
      const bool number = cell.empty() || cell == "-" || std::isdigit(static_cast<unsigned char>(cell[0])) != 0 ||
                          ((cell[0] == '+' || cell[0] == '-') && cell.size() > 1);
      if (r > 0 && !number) right[c] = false;
    }
  std::string out;
  for (const auto& row : rows_) {
    std::string line(indent);
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string pad(width[c] - code_points(row[c]), ' ');
      if (c > 0) line += "  ";
      line += right[c] ? pad + row[c] : row[c] + pad;
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    out += line + "\n";
  }
  return out;
}

}  // namespace reshard::base
