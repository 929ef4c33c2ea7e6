#include "config/override.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/check.h"
#include "config/document.h"
#include "config/job_tables.h"
#include "config/reader.h"
#include "config/table_rules.h"
#include "config/unit_entry.h"
#include "config/value.h"
#include "reshard/decision.h"
#include "reshard/error.h"

namespace reshard::config {
namespace {

const std::string kSet = "--set";
const std::string kUnitOption = "--unit";
const std::string kReshard = "--reshard-after-forward";
const std::string kKeep = "--no-reshard-after-forward";

// Where errors about an option's own form stand: the option as the user typed it.
[[noreturn]] void fail_form(const std::string& option, const std::string& text, const std::string& form) {
  throw Error(ErrorCode::config, fmt::format("{} takes {}, not {}", option, form, quoted_text(text)), "command line");
}

std::string trimmed(const std::string& text) {
  const std::size_t from = text.find_first_not_of(" \t"), to = text.find_last_not_of(" \t");
  return from == std::string::npos ? std::string() : text.substr(from, to - from + 1);
}

// "key = value" as a document. Text that is no TOML value becomes a string: a bare word, a path, a size.
Block assignment(const std::string& key, const std::string& value, const std::string& option) {
  const std::string line = key + " = " + value;
  const bool one_line = value.find('\n') == std::string::npos;
  return parse_document(one_line && is_toml(line) ? line : key + " = " + quoted_text(value), option);
}

// The path of the table that an assignment gives as a whole, "optimizer.schedule"; empty where it gives a value.
// `path`: the same key with a plain value.
std::string whole_table(const Block& path, const Block& given) {
  std::string name;
  const Block *key = &path, *value = &given;
  while (key != nullptr && value != nullptr) {
    name += (name.empty() ? "" : ".") + key->entries.front().key;
    value = std::get_if<Block>(&value->entries.front().content);
    key = std::get_if<Block>(&key->entries.front().content);
  }
  return value == nullptr ? "" : name;
}

// The keys that an assignment gives, in full: "optimizer.schedule.name".
void add_keys(const Block& given, const std::string& table, std::vector<std::string>& keys) {
  for (const Entry& entry : given.entries) {
    const std::string full = table.empty() ? entry.key : table + "." + entry.key;
    if (const auto* inner = std::get_if<Block>(&entry.content))
      add_keys(*inner, full, keys);
    else
      keys.push_back(full);
  }
}

[[noreturn]] void fail_twice(const std::string& what, const std::string& first, const std::string& first_option,
                             const std::string& second, const std::string& second_option) {
  throw Error(ErrorCode::config,
              fmt::format("{} is given twice: {} ({}) and {} ({})", what, first, first_option,
                          second.empty() ? "nothing" : second, second_option),
              "command line", "give it once");
}

// The options of one command line, applied one after the other. None may change what an earlier one has given.
class CommandLineKeys {
 public:
  CommandLineKeys(Job& job, Tables& program) : job_(job), program_(program) {}

  void set(const std::string& text) {
    const std::string form = "a.b.c=value";
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos) fail_form(kSet, text, form);
    const std::string key = trimmed(text.substr(0, equals));
    if (key.empty() || !is_toml(key + " = 0")) fail_form(kSet, text, form);
    const std::string option = kSet + " " + key;
    Reader reader(job_, program_, "");
    const Block given = assignment(key, trimmed(text.substr(equals + 1)), option);
    reader.on_command_line(option, whole_table(parse_document(key + " = 0", option), given));
    reader.read(given);
    std::vector<std::string> keys;
    add_keys(given, "", keys);
    keep(reader, option, keys);
  }

  void set(const std::string& option, const std::string& table, const std::string& key, OptionValue value) {
    Reader reader(job_, program_, "");
    reader.on_command_line(option);
    value.where = option;
    reader.set(table, key, std::move(value));
    keep(reader, option, {table + "." + key});
  }

 private:
  struct Kept {
    std::string text, option;
  };

  void keep(const Reader& reader, const std::string& option, const std::vector<std::string>& keys) {
    for (const auto& [key, kept] : kept_)
      if (const std::string now = reader.text(key); now != kept.text)
        fail_twice(key, kept.text, kept.option, now, option);
    for (const std::string& key : keys) kept_.try_emplace(key, Kept{reader.text(key), option});
  }

  Job& job_;
  Tables& program_;
  std::map<std::string, Kept> kept_;  // by key
};

// Two entries of the command line for the same units must not give one field two values.
template <typename Value>
void check_once(const std::string& match, const char* field, const std::optional<Given<Value>>& a,
                const std::optional<Given<Value>>& b) {
  const auto text = [](const Value& value) -> std::string {
    if constexpr (std::is_same_v<Value, int>)
      return std::to_string(value);
    else if constexpr (std::is_same_v<Value, Dtype>)
      return name(value);
    else
      return value_text(value);
  };
  if (a && b && !(a->value == b->value))
    fail_twice(fmt::format("{} of {}", field, match), text(a->value), a->where, text(b->value), b->where);
}

void append_unit(UnitOverride entry, Job& job) {
  entry.command_line = true;
  for (const UnitOverride& earlier : job.strategy.units) {
    if (!earlier.command_line || earlier.match != entry.match) continue;
    check_once(entry.match, name(Field::after_forward), earlier.after_forward, entry.after_forward);
    check_once(entry.match, name(Field::after_backward), earlier.after_backward, entry.after_backward);
    check_once(entry.match, name(Field::reduce), earlier.reduce, entry.reduce);
    check_once(entry.match, name(Field::prefetch_forward), earlier.prefetch_forward, entry.prefetch_forward);
    check_once(entry.match, name(Field::prefetch_backward), earlier.prefetch_backward, entry.prefetch_backward);
    check_once(entry.match, "param_dtype", earlier.param_dtype, entry.param_dtype);
  }
  job.strategy.units.push_back(std::move(entry));
}

void append_after_forward(const std::string& option, AfterForward value, Job& job) {
  UnitOverride entry;
  entry.match = "*";
  entry.where = option;
  entry.after_forward = {value, option};
  append_unit(std::move(entry), job);
}

UnitOverride unit_of(const std::string& text) {
  const std::string form = "NAME:key=value";
  const std::size_t equals = text.find('=');
  const std::size_t colon = equals == std::string::npos ? equals : text.rfind(':', equals);
  if (colon == std::string::npos) fail_form(kUnitOption, text, form);
  const std::string key = trimmed(text.substr(colon + 1, equals - colon - 1));
  UnitOverride entry;
  entry.match = trimmed(text.substr(0, colon));
  if (entry.match.empty() || key.empty()) fail_form(kUnitOption, text, form);
  entry.where = fmt::format("{} {}:{}", kUnitOption, entry.match, key);

  std::vector<std::string> keys = unit_keys();
  std::erase(keys, "match");
  if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
    std::string remedy = did_you_mean(key, keys);
    if (remedy.empty()) remedy = "a unit has " + fmt::format("{}", fmt::join(keys, ", "));
    throw Error(ErrorCode::config, fmt::format("unknown key {} of a unit", quoted_text(key)), entry.where, remedy);
  }
  const Block block = assignment(key, trimmed(text.substr(equals + 1)), entry.where);
  const auto* value = std::get_if<OptionValue>(&block.entries.front().content);
  if (value == nullptr)
    throw Error(ErrorCode::config, fmt::format("strategy.unit.{} must be a value, not a table", key), entry.where);
  set_unit_key(entry, key, placed_at(*value, entry.where));
  return entry;
}

}  // namespace

void apply(const Overrides& overrides, Job& job, Tables& program) {
  CommandLineKeys keys(job, program);
  for (const std::string& text : overrides.set) keys.set(text);
  if (overrides.strategy) keys.set("--strategy", "strategy", "plugin", {*overrides.strategy, ""});
  if (overrides.ranks) {
    if (*overrides.ranks <= 0) fail_form("--ranks", std::to_string(*overrides.ranks), "a number of ranks above 0");
    keys.set("--ranks", "mesh", "ranks", {*overrides.ranks, ""});
  }
  if (overrides.steps) keys.set("--steps", "train", "steps", {*overrides.steps, ""});
  for (const auto& [option, key, value] : overrides.keys) {
    const std::size_t dot = key.rfind('.');
    RESHARD_CHECK(dot != std::string::npos, "a key has its table's name");
    keys.set(option, key.substr(0, dot), key.substr(dot + 1), {value, ""});
  }

  if (overrides.reshard_after_forward && overrides.no_reshard_after_forward)
    throw Error(ErrorCode::config, kReshard + " and " + kKeep + " contradict each other", "command line",
                "give one of them");
  const auto append_for_every_unit = [&] {
    if (overrides.no_reshard_after_forward) append_after_forward(kKeep, AfterForward::keep(), job);
    if (const std::optional<std::string>& k = overrides.reshard_after_forward)
      append_after_forward(kReshard, k->empty() ? AfterForward::free() : shrink_of(kReshard, *k), job);
  };
  const std::size_t before = std::min(overrides.units_before, overrides.units.size());
  for (std::size_t i = 0; i < before; ++i) append_unit(unit_of(overrides.units[i]), job);
  append_for_every_unit();
  for (std::size_t i = before; i < overrides.units.size(); ++i) append_unit(unit_of(overrides.units[i]), job);
}

std::string strategy_from_command_line(const std::string& value) {
  return path_text(value, PathKind::plugin, "");
}

}  // namespace reshard::config
