#include "config/value.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <utility>

#include <fmt/format.h>

namespace reshard::config {
namespace {

bool is_bare_key(std::string_view key) {
  return !key.empty() && std::all_of(key.begin(), key.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
  });
}

std::string list_of(const OptionValue::List& list) {
  std::string text = "[";
  for (std::size_t i = 0; i < list.size(); ++i) text += (i > 0 ? ", " : "") + toml_text(list[i]);
  return text + "]";
}

}  // namespace

std::string quoted_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F)
          out += fmt::format("\\u{:04X}", static_cast<unsigned>(c));
        else
          out += c;
    }
  }
  return out + "\"";
}

std::string number_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string bytes_value_text(int64_t bytes) {
  static constexpr std::pair<int, const char*> units[] = {{40, "TiB"}, {30, "GiB"}, {20, "MiB"}, {10, "KiB"}};
  for (const auto& [shift, word] : units)
    if (bytes > 0 && bytes % (int64_t{1} << shift) == 0) return fmt::format("\"{} {}\"", bytes >> shift, word);
  return std::to_string(bytes);
}

std::string key_text(std::string_view key) {
  return is_bare_key(key) ? std::string(key) : quoted_text(key);
}

std::string toml_text(const OptionValue& value) {
  switch (value.value.index()) {
    case 0: return std::get<bool>(value.value) ? "true" : "false";
    case 1: return std::to_string(std::get<int64_t>(value.value));
    case 2: return number_text(std::get<double>(value.value));
    case 3: return quoted_text(std::get<std::string>(value.value));
    default: return list_of(std::get<OptionValue::List>(value.value));
  }
}

std::string inline_table_text(const OptionValues& options) {
  if (options.empty()) return "{}";
  std::string text = "{";
  for (const auto& [key, value] : options)
    text += (text.size() > 1 ? ", " : " ") + key_text(key) + " = " + toml_text(value);
  return text + " }";
}

std::string described(const OptionValue& value) {
  if (const auto* text = std::get_if<std::string>(&value.value)) return "the string " + quoted_text(*text);
  if (const auto* list = std::get_if<OptionValue::List>(&value.value))
    return list->empty() ? std::string("an empty list") : fmt::format("a list of {}", list->size());
  return toml_text(value);
}

OptionValue placed_at(OptionValue value, const std::string& where) {
  value.where = where;
  if (auto* list = std::get_if<OptionValue::List>(&value.value))
    for (OptionValue& item : *list) item = placed_at(std::move(item), where);
  return value;
}

}  // namespace reshard::config
