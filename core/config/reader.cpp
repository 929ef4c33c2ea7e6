#include "config/reader.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "config/job_tables.h"
#include "config/table_rules.h"
#include "config/unit_entry.h"
#include "config/value.h"
#include "reshard/error.h"
#include "reshard/text.h"

namespace reshard::config {
namespace {

const std::string kOptions = "strategy.options";
const std::string kUnit = "strategy.unit";
const std::string kVariant = "strategy.variant";
const std::string kSwitch = "strategy.switch";
const std::string kGroup = "optimizer.group";
const std::string kPin = "plugins.pin";
const std::array<std::string, 5> kLists{kUnit, kVariant, kSwitch, kGroup, kPin};

bool is_list(const std::string& name) {
  return std::find(kLists.begin(), kLists.end(), name) != kLists.end();
}

std::string joined(const std::string& table, const std::string& key) {
  return table.empty() ? key : table + "." + key;
}

bool is_value(const Entry& entry) {
  return std::holds_alternative<OptionValue>(entry.content);
}

std::string known_text(const std::vector<std::string>& known) {
  return known.empty() ? "" : "it has " + base::list_text(known);
}

// A value of a plugin's options, with the place of its key: the core looks no further into it.
OptionValue option_of(const Entry& entry, const std::string& owner, const std::string& where) {
  if (!is_value(entry))
    throw Error(ErrorCode::config, fmt::format("{}.{} must be a value or a list, not a table", owner, entry.key), where,
                "a plugin's options are plain values");
  OptionValue value = std::get<OptionValue>(entry.content);
  value.where = where;
  return value;
}

}  // namespace

Reader::Reader(Job& job, Tables& program, std::string folder)
    : job_(job), core_(job_tables(job)), folder_(std::move(folder)) {
  for (Table& table : core_) tables_.push_back(&table);
  for (Table& table : program) {
    RESHARD_CHECK(find(table.name()) == nullptr && table.name() != kOptions && !is_list(table.name()),
                  "a program's table has a name of its own");
    tables_.push_back(&table);
  }
}

Table* Reader::find(const std::string& name) {
  for (Table* table : tables_)
    if (table->name() == name) return table;
  return nullptr;
}

bool Reader::is_parent(const std::string& name) const {
  return std::any_of(tables_.begin(), tables_.end(),
                     [&name](const Table* table) { return table->name().starts_with(name + "."); });
}

void Reader::read(const Block& document) {
  if (!whole_.empty()) replace_table(whole_);
  read_table("", document);
}

void Reader::read_table(const std::string& name, const Block& block) {
  Table* table = find(name);
  for (const Entry& entry : block.entries) {
    if (entry.key.find('.') != std::string::npos) fail_unknown(name, entry);  // in quotes: no path, but one odd name
    const std::string full = joined(name, entry.key);
    if (full == kUnit) {
      read_units(entry);
    } else if (full == kVariant) {
      read_variants(entry);
    } else if (full == kSwitch) {
      read_switches(entry);
    } else if (full == kGroup) {
      read_groups(entry);
    } else if (full == kPin) {
      read_pins(entry);
    } else if (table != nullptr && table->has(entry.key)) {
      set_value(*table, entry);
    } else if (full == kOptions || find(full) != nullptr || is_parent(full)) {
      const auto* inner = std::get_if<Block>(&entry.content);
      if (inner == nullptr)
        throw Error(ErrorCode::config,
                    fmt::format("[{}] must be a table, not {}", full,
                                is_value(entry) ? described(std::get<OptionValue>(entry.content)) : "a list of tables"),
                    place(entry.where));
      if (full == kOptions)
        read_options(*inner);
      else
        read_table(full, *inner);
    } else {
      fail_unknown(name, entry);
    }
  }
}

void Reader::set_value(Table& table, const Entry& entry) {
  const std::string full = table.name() + "." + entry.key;
  if (!is_value(entry)) {
    const bool list = std::holds_alternative<std::vector<Block>>(entry.content);
    throw Error(ErrorCode::config,
                fmt::format("{} must be a value, not {}", full, list ? "a list of tables" : "a table"),
                place(entry.where));
  }
  OptionValue value = placed_at(std::get<OptionValue>(entry.content), place(entry.where));
  const std::string before = table.text(entry.key);
  table.set(entry.key, value, folder_);
  give(full, before, value.where);
}

void Reader::set(const std::string& table, const std::string& key, OptionValue value) {
  Entry entry{.key = key, .where = option_, .content = std::move(value)};
  Table* found = find(table);
  RESHARD_CHECK(found != nullptr, "a declared table");
  set_value(*found, entry);
}

std::string Reader::text(const std::string& full) const {
  for (const Table* table : tables_)
    if (full.starts_with(table->name() + "."))
      if (const std::string key = full.substr(table->name().size() + 1); table->has(key)) return table->text(key);
  for (const auto& [plugin, options] : job_.strategy.options)
    for (const auto& [key, value] : options)
      if (full == joined(joined(kOptions, plugin), key)) return toml_text(value);
  return "";
}

// Keeps the place of a value, and on the command line what the job file had said: the first time only, so that of two
// options the file's value is kept and not the first option's.
void Reader::give(const std::string& full, const std::string& text, const std::string& where) {
  const auto before = job_.places.find(full);
  if (!option_.empty() && before != job_.places.end() && !before->second.command_line)
    job_.replaced.emplace(full, Job::Replaced{text, before->second.where});
  job_.places[full] = {where, !option_.empty()};
}

// Takes back what the job file and earlier options said of a table and of the tables in it.
void Reader::replace_table(const std::string& name) {
  const auto within = [&name](const std::string& table) { return table == name || table.starts_with(name + "."); };
  for (Table* table : tables_)
    for (const std::string& key : table->keys()) {
      const std::string full = joined(table->name(), key);
      if (!within(table->name()) || !job_.places.contains(full)) continue;
      const std::string before = table->text(key);
      table->reset(key, option_);
      give(full, before, option_);
    }
  for (auto& [plugin, options] : job_.strategy.options)
    if (const std::string owner = joined(kOptions, plugin); within(owner)) {
      for (const auto& [key, value] : options) give(joined(owner, key), toml_text(value), option_);
      options.clear();
    }
}

void Reader::read_options(const Block& block) {
  for (const Entry& plugin : block.entries) {
    const std::string owner = joined(kOptions, plugin.key);
    const auto* options = std::get_if<Block>(&plugin.content);
    if (options == nullptr)
      throw Error(ErrorCode::config, fmt::format("[{}] must be a table of a plugin's options", owner),
                  place(plugin.where), "write [strategy.options.NAME] with the plugin's name");
    job_.places.try_emplace(owner, Job::Place{place(plugin.where), !option_.empty()});
    OptionValues& kept = job_.strategy.options[plugin.key];
    for (const Entry& entry : options->entries) {
      const OptionValue value = option_of(entry, owner, place(entry.where));
      const auto before = kept.find(entry.key);
      give(joined(owner, entry.key), before == kept.end() ? "" : toml_text(before->second), value.where);
      kept[entry.key] = value;
    }
  }
}

const std::vector<Block>& Reader::blocks_of(const std::string& name, const Entry& entry) const {
  if (!option_.empty())
    throw Error(ErrorCode::config, fmt::format("{} is a list of tables, which --set cannot reach", name), option_,
                name == kUnit ? "give --unit NAME:key=value" : fmt::format("write [[{}]] in the job file", name));
  const auto* blocks = std::get_if<std::vector<Block>>(&entry.content);
  if (blocks == nullptr)
    throw Error(ErrorCode::config, fmt::format("{} must be a list of tables", name), entry.where,
                fmt::format("write [[{}]]", name));
  return *blocks;
}

void Reader::read_units(const Entry& list) {
  for (const Block& block : blocks_of(kUnit, list)) {
    UnitOverride entry;
    entry.where = block.where;
    const std::vector<std::string>& keys = unit_keys();
    for (const Entry& given : block.entries) {
      if (std::find(keys.begin(), keys.end(), given.key) == keys.end()) fail_unknown_list_key(kUnit, keys, given);
      if (!is_value(given))
        throw Error(ErrorCode::config, fmt::format("{}.{} must be a value, not a table", kUnit, given.key),
                    given.where);
      set_unit_key(entry, given.key, placed_at(std::get<OptionValue>(given.content), given.where));
    }
    if (entry.match.empty())
      throw Error(ErrorCode::config, "a [[strategy.unit]] entry has no match", block.where,
                  "write match = \"h.*\": a unit's name, a glob, or \"root\"");
    refuse_idle(kUnit, block, "after_forward = \"keep\"");
    job_.strategy.units.push_back(std::move(entry));
  }
}

// A forgotten line would otherwise pass for a decision.
void Reader::refuse_idle(const std::string& name, const Block& block, const std::string& example) {
  if (block.entries.size() > 1) return;
  throw Error(ErrorCode::config, fmt::format("a [[{}]] entry has a match and sets nothing", name), block.where,
              fmt::format("add what it is to set, as in {}, or leave the entry out", example));
}

void Reader::read_list_entry(Table& table, OptionValues& options, const Block& block) {
  std::vector<std::string> known = table.keys();
  known.push_back("options");
  for (const Entry& entry : block.entries) {
    if (entry.key == "options") {
      const auto* inner = std::get_if<Block>(&entry.content);
      if (inner == nullptr)
        throw Error(ErrorCode::config, fmt::format("{}.options must be a table", table.name()), entry.where,
                    "write options = { key = value }");
      for (const Entry& option : inner->entries)
        options[option.key] = option_of(option, table.name() + ".options", option.where);
    } else if (!table.has(entry.key)) {
      fail_unknown_list_key(table.name(), known, entry);
    } else if (!is_value(entry)) {
      throw Error(ErrorCode::config, fmt::format("{}.{} must be a value, not a table", table.name(), entry.key),
                  entry.where);
    } else {
      table.set(entry.key, placed_at(std::get<OptionValue>(entry.content), entry.where), folder_);
    }
  }
  for (const std::string& key : table.keys())
    if (table.where(key) == "default")
      throw Error(ErrorCode::config, fmt::format("a [[{}]] entry has no {}", table.name(), key), block.where,
                  fmt::format("write {} = …: {}", key, table.spec(key).doc));
}

void Reader::read_variants(const Entry& list) {
  for (const Block& block : blocks_of(kVariant, list)) {
    Job::Variant variant;
    variant.where = block.where;
    Table table = variant_table(variant);
    read_list_entry(table, variant.options, block);
    job_.strategy.variants.push_back(std::move(variant));
  }
}

void Reader::read_switches(const Entry& list) {
  for (const Block& block : blocks_of(kSwitch, list)) {
    Job::Switch change;
    change.where = block.where;
    Table table = switch_table(change);
    read_list_entry(table, change.options, block);
    job_.strategy.switches.push_back(std::move(change));
  }
}

template <typename Item>
void Reader::read_plain_list(const std::string& name, const Entry& list, Table (*table_of)(Item&),
                             std::vector<Item>& items, const std::vector<std::string>& required,
                             const std::string& remedy) const {
  for (const Block& block : blocks_of(name, list)) {
    Item item;
    item.where = block.where;
    Table table = table_of(item);
    for (const Entry& given : block.entries) {
      if (!table.has(given.key)) fail_unknown_list_key(name, table.keys(), given);
      if (!is_value(given))
        throw Error(ErrorCode::config, fmt::format("{}.{} must be a value, not a table", name, given.key), given.where);
      table.set(given.key, placed_at(std::get<OptionValue>(given.content), given.where), folder_);
    }
    for (const std::string& key : required)
      if (table.where(key) == "default")
        throw Error(ErrorCode::config, fmt::format("a [[{}]] entry has no {}", name, key), block.where, remedy);
    items.push_back(std::move(item));
  }
}

void Reader::read_groups(const Entry& list) {
  read_plain_list(kGroup, list, group_table, job_.optimizer.groups, {"match"},
                  "write match = \"*.bias\": a parameter's name or a glob");
  for (const Block& block : blocks_of(kGroup, list)) refuse_idle(kGroup, block, "weight_decay = 0");
}

void Reader::read_pins(const Entry& list) {
  read_plain_list(kPin, list, pin_table, job_.plugins.pins, {"name", "sha256"}, "copy what `plugins pin NAME` prints");
}

void Reader::fail_unknown_list_key(const std::string& name, const std::vector<std::string>& known,
                                   const Entry& entry) const {
  std::string remedy = did_you_mean(entry.key, known);
  if (remedy.empty()) remedy = known_text(known);
  throw Error(ErrorCode::config, fmt::format("unknown key {} in [[{}]]", quoted_text(entry.key), name), entry.where,
              remedy);
}

void Reader::fail_unknown_table(const std::string& name, const Entry& entry) const {
  std::vector<std::string> known;
  for (const Table* table : tables_) known.push_back(table->name());
  known.push_back(kOptions);
  known.insert(known.end(), kLists.begin(), kLists.end());
  const std::string full = joined(name, entry.key);
  const std::string near = base::nearest(full, known);
  std::string remedy;
  if (!near.empty())
    remedy = is_list(near) ? fmt::format("did you mean [[{}]]?", near) : fmt::format("did you mean [{}]?", near);
  else if (name.empty())
    remedy = "the tables are " + base::list_text(known);
  throw Error(ErrorCode::config, fmt::format("unknown table [{}]", full), place(entry.where), remedy);
}

void Reader::fail_unknown(const std::string& name, const Entry& entry) const {
  if (!is_value(entry)) fail_unknown_table(name, entry);
  std::vector<std::string> known, tables;
  for (const Table* table : tables_) {
    tables.push_back(table->name());
    if (table->name() == name) known = table->keys();
  }
  std::string remedy = did_you_mean(entry.key, known);
  // A right key in the wrong table is likelier than a far spelling.
  for (const Table* table : tables_)
    if (remedy.empty() && table->has(entry.key))
      remedy = fmt::format("did you mean {} in [{}]?", quoted_text(entry.key), table->name());
  const std::vector<std::string>& of_units = unit_keys();
  if (remedy.empty() && name == "strategy" && std::find(of_units.begin(), of_units.end(), entry.key) != of_units.end())
    remedy = "a plugin's options stand in [strategy.options.NAME], a unit's in [[strategy.unit]]";
  if (const std::string near = base::nearest(entry.key, tables); remedy.empty() && name.empty() && !near.empty())
    remedy = fmt::format("did you mean the table [{}]?", near);
  if (remedy.empty()) remedy = known_text(known);
  throw Error(ErrorCode::config,
              name.empty() ? fmt::format("unknown key {} outside of any table", quoted_text(entry.key))
                           : fmt::format("unknown key {} in [{}]", quoted_text(entry.key), name),
              place(entry.where), remedy);
}

}  // namespace reshard::config
