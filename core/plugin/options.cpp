#include "plugin/options.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include <fmt/format.h>

#include "plugin/host.h"
#include "reshard/error.h"
#include "reshard/text.h"

namespace reshard::plugin {
namespace {

const char* wanted(uint32_t type) {
  switch (type) {
    case RESHARD_BOOL: return "true or false";
    case RESHARD_INTEGER: return "an integer";
    case RESHARD_REAL: return "a number";
    case RESHARD_BYTES: return "a number of bytes, as 4096 or \"80 GiB\"";
    default: return "a text";
  }
}

const char* given(const OptionValue& value) {
  static constexpr const char* words[] = {"a bool", "an integer", "a real", "a text", "a list"};
  return words[value.value.index()];
}

// The value as one of `type`, empty when it is of another.
std::optional<OptionSetting> convert(const OptionValue& value, uint32_t type) {
  OptionSetting setting{.type = type, .given = true};
  if (const auto* flag = std::get_if<bool>(&value.value)) {
    setting.integer = *flag ? 1 : 0;
    if (type == RESHARD_BOOL) return setting;
  } else if (const auto* integer = std::get_if<int64_t>(&value.value)) {
    setting.integer = *integer;
    setting.real = static_cast<double>(*integer);
    if (type == RESHARD_REAL) setting.integer = 0;
    if (type == RESHARD_INTEGER || type == RESHARD_REAL || type == RESHARD_BYTES) return setting;
  } else if (const auto* real = std::get_if<double>(&value.value)) {
    setting.real = *real;
    if (type == RESHARD_REAL) return setting;
  } else if (const auto* text = std::get_if<std::string>(&value.value)) {
    if (type == RESHARD_BYTES) {
      const std::optional<int64_t> bytes = base::parse_bytes(*text);
      if (!bytes) return std::nullopt;
      setting.integer = *bytes;
      return setting;
    }
    setting.text = *text;
    if (type == RESHARD_STRING || type == RESHARD_CHOICE) return setting;
  }
  return std::nullopt;
}

// `name`: as errors spell it, "strategy.options.NAME.key" or "strategy.options.NAME.key[2]".
OptionSetting check_item(const OptionSpec& option, const std::string& name, const OptionValue& value) {
  std::optional<OptionSetting> setting = convert(value, option.item_type());
  if (!setting) {
    const auto* text = std::get_if<std::string>(&value.value);
    const std::string is =
        text != nullptr && option.item_type() == RESHARD_BYTES ? fmt::format("\"{}\"", printable(*text)) : given(value);
    throw Error(ErrorCode::config, fmt::format("{} is {}, not {}", name, is, wanted(option.item_type())), value.where);
  }
  if (const std::string why = misfit(option, *setting); !why.empty()) {
    const std::string near = option.item_type() == RESHARD_CHOICE ? base::nearest(setting->text, option.choices) : "";
    throw Error(ErrorCode::config, fmt::format("{} is {}", name, why), value.where,
                near.empty() ? "" : fmt::format("did you mean \"{}\"?", near));
  }
  if (option.item_type() == RESHARD_CHOICE)
    setting->integer = std::find(option.choices.begin(), option.choices.end(), setting->text) - option.choices.begin();
  return *std::move(setting);
}

OptionSetting check_one(const OptionSpec& option, const std::string& name, const OptionValue& value) {
  if (!option.list()) return check_item(option, name, value);
  const auto* items = std::get_if<OptionValue::List>(&value.value);
  if (items == nullptr)
    throw Error(ErrorCode::config, fmt::format("{} is {}, not a list", name, given(value)), value.where);
  OptionSetting setting{.type = option.type, .given = true};
  for (std::size_t i = 0; i < items->size(); ++i)
    setting.items.push_back(check_item(option, fmt::format("{}[{}]", name, i), (*items)[i]));
  return setting;
}

[[noreturn]] void unknown(const std::string& strategy, const std::vector<OptionSpec>& table, const std::string& key,
                          const std::string& where) {
  std::vector<std::string> names;
  for (const OptionSpec& option : table) names.push_back(option.name);
  const std::string near = base::nearest(key, names);
  std::string remedy = "it has no options";
  if (!near.empty())
    remedy = fmt::format("did you mean \"{}\"?", near);
  else if (!names.empty())
    remedy = "its options are " + base::list_text(names);
  throw Error(ErrorCode::config, fmt::format("strategy.options.{}.{}: {} has no such option", strategy, key, strategy),
              where, remedy);
}

reshard_value raw(const OptionSetting& setting) {
  reshard_value value{};
  value.type = setting.type;
  value.given = setting.given ? 1 : 0;
  value.integer = setting.integer;
  value.real = setting.real;
  value.text = text(setting.text);
  return value;
}

}  // namespace

std::vector<OptionSetting> check_options(const std::string& strategy, const std::vector<OptionSpec>& table,
                                         const OptionValues& values, const std::string& where) {
  for (const auto& value : values)
    if (std::none_of(table.begin(), table.end(), [&](const OptionSpec& option) { return option.name == value.first; }))
      unknown(strategy, table, value.first, value.second.where);
  std::vector<OptionSetting> settings;
  for (const OptionSpec& option : table) {
    const std::string name = fmt::format("strategy.options.{}.{}", strategy, option.name);
    const auto value = values.find(option.name);
    if (value != values.end()) {
      settings.push_back(check_one(option, name, value->second));
    } else if (option.required) {
      throw Error(ErrorCode::config, fmt::format("{} is missing; {} needs it", name, strategy), where,
                  fmt::format("set it: {}, {}", type_text(option), option.doc));
    } else {
      settings.push_back(option.fallback);
    }
  }
  return settings;
}

std::string place_of(const OptionValues& values, const std::string& key) {
  const std::size_t bracket = key.find('[');
  const auto value = values.find(key.substr(0, bracket));
  if (value == values.end()) return {};
  const auto* items = std::get_if<OptionValue::List>(&value->second.value);
  if (bracket == std::string::npos || items == nullptr) return value->second.where;
  std::size_t index = 0;
  const auto parsed = std::from_chars(key.data() + bracket + 1, key.data() + key.size(), index);
  const bool known = parsed.ec == std::errc{} && index < items->size() && !(*items)[index].where.empty();
  return known ? (*items)[index].where : value->second.where;
}

SettingArray::SettingArray(const std::vector<OptionSpec>& table, const std::vector<OptionSetting>& settings)
    : items_(settings.size()) {
  for (std::size_t i = 0; i < settings.size(); ++i) {
    for (const OptionSetting& item : settings[i].items) items_[i].push_back(raw(item));
    settings_.push_back({text(table[i].name), raw(settings[i])});
    settings_.back().value.items = items_[i].data();
    settings_.back().value.item_count = static_cast<uint32_t>(items_[i].size());
  }
}

}  // namespace reshard::plugin
