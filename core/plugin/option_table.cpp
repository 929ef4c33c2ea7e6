#include "plugin/option_table.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "plugin/host.h"
#include "reshard/error.h"
#include "reshard/text.h"

namespace reshard::plugin {
namespace {

constexpr uint32_t kMostOptions = 256, kMostItems = 4096;

bool identifier(const std::string& name) {
  return !name.empty() && name.size() <= 64 && name[0] >= 'a' && name[0] <= 'z' &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; });
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

// A number of bytes as users write it, but only where that is exact.
std::string bytes_toml(int64_t bytes) {
  static constexpr const char* units[] = {"KiB", "MiB", "GiB", "TiB"};
  int unit = -1;
  while (bytes > 0 && bytes % 1024 == 0 && unit < 3) bytes /= 1024, ++unit;
  return unit < 0 ? std::to_string(bytes) : fmt::format("\"{} {}\"", bytes, units[unit]);
}

std::string real_text(double value) {
  std::string text = fmt::format("{}", value);
  return text.find_first_of(".enf") == std::string::npos ? text + ".0" : text;
}

OptionSetting copy(const reshard_value& value, const std::vector<std::string>& choices) {
  OptionSetting setting;
  setting.type = value.type;
  setting.integer = value.integer;
  setting.real = value.real;
  setting.text = view(value.text);
  if (value.type == RESHARD_CHOICE)
    setting.integer = std::find(choices.begin(), choices.end(), setting.text) - choices.begin();
  const bool list = (value.type & RESHARD_LIST) != 0;
  for (uint32_t i = 0; list && i < std::min(value.item_count, kMostItems) && value.items != nullptr; ++i)
    if ((value.items[i].type & RESHARD_LIST) == 0) setting.items.push_back(copy(value.items[i], choices));
  return setting;
}

OptionSpec copy(const reshard_option& raw) {
  OptionSpec option;
  option.name = printable(view(raw.name));
  option.doc = printable(view(raw.doc));
  option.type = raw.type;
  option.required = (raw.flags & RESHARD_OPTION_REQUIRED) != 0;
  option.integer_min = raw.integer_min, option.integer_max = raw.integer_max;
  option.real_min = raw.real_min, option.real_max = raw.real_max;
  for (uint32_t i = 0; i < std::min(raw.choice_count, kMostItems) && raw.choices != nullptr; ++i)
    option.choices.push_back(printable(view(raw.choices[i])));
  if (!option.required && raw.fallback.type == raw.type) option.fallback = copy(raw.fallback, option.choices);
  return option;
}

// What is wrong with a row of the table; empty when nothing is.
std::string fault(const OptionSpec& option) {
  if (option.item_type() < RESHARD_BOOL || option.item_type() > RESHARD_BYTES)
    return fmt::format("has the unknown type {:#x}", option.type);
  if (option.item_type() == RESHARD_CHOICE && option.choices.empty()) return "has no choices";
  if (option.required) return {};
  if (option.fallback.type != option.type) return "has a default of another type";
  if (!option.list()) {
    const std::string why = misfit(option, option.fallback);
    return why.empty() ? why : "has the default " + why;
  }
  for (const OptionSetting& item : option.fallback.items) {
    if (item.type != option.item_type()) return "has a default of another type";
    const std::string why = misfit(option, item);
    if (!why.empty()) return "has the default " + why;
  }
  return {};
}

std::string item_type_text(uint32_t type) {
  switch (type) {
    case RESHARD_BOOL: return "bool";
    case RESHARD_INTEGER: return "integer";
    case RESHARD_REAL: return "real";
    case RESHARD_STRING: return "text";
    case RESHARD_CHOICE: return "choice";
    case RESHARD_BYTES: return "bytes";
    default: return "unknown";
  }
}

std::string choices_text(const std::vector<std::string>& choices) {
  std::string text;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (i > 0) text += i + 1 == choices.size() ? " or " : ", ";
    text += quoted(choices[i]);
  }
  return text;
}

template <class Number, class Text>
std::string limits(Number min, Number max, Number least, Number most, const Text& text) {
  if (min == least && max == most) return {};
  if (max == most) return fmt::format("at least {}", text(min));
  if (min == least) return fmt::format("at most {}", text(max));
  return fmt::format("{} … {}", text(min), text(max));
}

}  // namespace

std::vector<OptionSpec> read_option_table(const reshard_strategy& strategy, const std::string& where) {
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorCode::plugin, what, where, "mend the strategy's table of options", "entry.options");
  };
  std::vector<OptionSpec> table;
  if (strategy.option_count > kMostOptions)
    refuse(fmt::format("has {} options; 256 are the most", strategy.option_count));
  if (strategy.option_count > 0 && (strategy.options == nullptr || strategy.option_size < sizeof(reshard_option)))
    refuse(fmt::format("has options of {} bytes; ABI 1.0 has {}", strategy.option_size, sizeof(reshard_option)));
  for (uint32_t i = 0; i < strategy.option_count; ++i) {
    const char* row = reinterpret_cast<const char*>(strategy.options) + std::size_t{i} * strategy.option_size;
    const OptionSpec option = copy(*reinterpret_cast<const reshard_option*>(row));
    if (!identifier(option.name))
      refuse(fmt::format("has an option named \"{}\"; names match [a-z][a-z0-9_]*", option.name));
    for (const OptionSpec& other : table)
      if (other.name == option.name) refuse(fmt::format("has two options named {}", option.name));
    if (const std::string why = fault(option); !why.empty())
      refuse(fmt::format("has the option {}, which {}", option.name, why));
    table.push_back(option);
  }
  std::sort(table.begin(), table.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return table;
}

std::string misfit(const OptionSpec& option, const OptionSetting& value) {
  switch (option.item_type()) {
    case RESHARD_INTEGER:
    case RESHARD_BYTES:
      if (value.integer >= option.integer_min && value.integer <= option.integer_max) return {};
      break;
    case RESHARD_REAL:
      if (value.real >= option.real_min && value.real <= option.real_max) return {};
      break;
    case RESHARD_BOOL:
      if (value.integer == 0 || value.integer == 1) return {};
      break;
    case RESHARD_CHOICE:
      if (std::find(option.choices.begin(), option.choices.end(), value.text) != option.choices.end()) return {};
      return fmt::format("{}, not {}", quoted(printable(value.text)), choices_text(option.choices));
    default: return {};
  }
  const std::string range = range_text(option);
  return fmt::format("{}, {}{}", toml_text(value), range.starts_with("at ") ? "not " : "outside ", range);
}

std::string toml_text(const OptionSetting& value) {
  if ((value.type & RESHARD_LIST) != 0) {
    std::string text = "[";
    for (const OptionSetting& item : value.items) text += (text.size() > 1 ? ", " : "") + toml_text(item);
    return text + "]";
  }
  switch (value.type) {
    case RESHARD_BOOL:
      return value.integer == 0 ? "false" : value.integer == 1 ? "true" : std::to_string(value.integer);
    case RESHARD_INTEGER: return std::to_string(value.integer);
    case RESHARD_REAL: return real_text(value.real);
    case RESHARD_BYTES: return bytes_toml(value.integer);
    default: return quoted(printable(value.text));
  }
}

std::string type_text(const OptionSpec& option) {
  return (option.list() ? "list of " : "") + item_type_text(option.item_type());
}

std::string range_text(const OptionSpec& option) {
  using Integers = std::numeric_limits<int64_t>;
  using Reals = std::numeric_limits<double>;
  switch (option.item_type()) {
    case RESHARD_BOOL: return "false or true";
    case RESHARD_INTEGER:
      return limits(option.integer_min, option.integer_max, Integers::min(), Integers::max(),
                    [](int64_t value) { return std::to_string(value); });
    case RESHARD_BYTES:
      return limits(option.integer_min, option.integer_max, Integers::min(), Integers::max(), bytes_toml);
    case RESHARD_REAL:
      return limits(option.real_min, option.real_max, -Reals::infinity(), Reals::infinity(), real_text);
    case RESHARD_CHOICE: return choices_text(option.choices);
    default: return {};
  }
}

OptionInfo describe(const OptionSpec& option) {
  return {.name = option.name,
          .type = type_text(option),
          .fallback = option.required ? std::string() : toml_text(option.fallback),
          .range = range_text(option),
          .doc = option.doc,
          .required = option.required};
}

}  // namespace reshard::plugin
