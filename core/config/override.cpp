#include "config/override.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "config/document.h"
#include "config/job_tables.h"
#include "config/reader.h"
#include "config/table_rules.h"
#include "config/unit_entry.h"
#include "config/value.h"
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

void apply_set(const std::string& text, Job& job, Tables& program) {
  const std::string form = "a.b.c=value";
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) fail_form(kSet, text, form);
  const std::string key = trimmed(text.substr(0, equals));
  if (key.empty() || !is_toml(key + " = 0")) fail_form(kSet, text, form);
  const std::string option = kSet + " " + key;
  Reader reader(job, program, "");
  const Block given = assignment(key, trimmed(text.substr(equals + 1)), option);
  reader.on_command_line(option, whole_table(parse_document(key + " = 0", option), given));
  reader.read(given);
}

void apply_value(const std::string& option, const std::string& table, const std::string& key, OptionValue value,
                 Job& job, Tables& program) {
  Reader reader(job, program, "");
  reader.on_command_line(option);
  reader.set(table, key, std::move(value));
}

void append_unit(UnitOverride entry, Job& job) {
  entry.command_line = true;
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
  for (const std::string& text : overrides.set) apply_set(text, job, program);
  if (overrides.strategy)
    apply_value("--strategy", "strategy", "plugin", {*overrides.strategy, "--strategy"}, job, program);
  if (overrides.ranks) {
    if (*overrides.ranks == 0) fail_form("--ranks", "0", "a number of ranks above 0");
    apply_value("--ranks", "mesh", "ranks", {*overrides.ranks, "--ranks"}, job, program);
  }
  if (overrides.steps) apply_value("--steps", "train", "steps", {*overrides.steps, "--steps"}, job, program);

  if (overrides.reshard_after_forward && overrides.no_reshard_after_forward)
    throw Error(ErrorCode::config, kReshard + " and " + kKeep + " contradict each other", "command line",
                "give one of them");
  if (overrides.no_reshard_after_forward) append_after_forward(kKeep, AfterForward::keep(), job);
  if (const std::optional<std::string>& k = overrides.reshard_after_forward)
    append_after_forward(kReshard, k->empty() ? AfterForward::free() : shrink_of(kReshard, *k), job);
  for (const std::string& text : overrides.units) append_unit(unit_of(text), job);
}

void apply_option(const std::string& option, const std::string& key, const std::string& value, Job& job,
                  Tables& program) {
  const std::size_t dot = key.rfind('.');
  RESHARD_CHECK(dot != std::string::npos, "a key has its table's name");
  apply_value(option, key.substr(0, dot), key.substr(dot + 1), {value, option}, job, program);
}

std::string strategy_from_command_line(const std::string& value) {
  return path_text(value, PathKind::plugin, "");
}

}  // namespace reshard::config
