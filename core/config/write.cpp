#include "config/write.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "config/job_tables.h"
#include "config/value.h"
#include "reshard/decision.h"
#include "reshard/text.h"

namespace reshard::config {
namespace {

constexpr std::size_t kMostPadding = 28;  // a value longer than this does not push the other comments to the right

std::size_t code_points(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string padded(std::string text, std::size_t width) {
  const std::size_t seen = code_points(text);
  return seen < width ? text.append(width - seen, ' ') : text;
}

// An absent key is a comment that shows how it would be written.
std::string example(const Table& table, const std::string& key) {
  const KeySpec& spec = table.spec(key);
  if (!spec.choices.empty()) return quoted_text(spec.choices.front());
  return spec.min ? fmt::format("{:.0f}", *spec.min) : "\"\"";
}

std::string table_text(const Table& table) {
  std::vector<std::pair<std::string, std::string>> lines;  // assignment, comment
  std::size_t key_width = 0, width = 0;
  for (const std::string& key : table.keys()) key_width = std::max(key_width, key.size());
  for (const std::string& key : table.keys()) {
    const std::string value = table.text(key);
    std::string line = padded(key, key_width) + " = " + (value.empty() ? example(table, key) : value);
    if (value.empty()) line = "# " + line;
    if (code_points(line) <= key_width + 3 + kMostPadding) width = std::max(width, code_points(line));
    lines.emplace_back(std::move(line), table.spec(key).doc);
  }
  std::string text;
  if (!table.doc().empty()) text += "# " + table.doc() + "\n";
  text += "[" + table.name() + "]\n";
  for (const auto& [line, doc] : lines) text += (doc.empty() ? line : padded(line, width) + "  # " + doc) + "\n";
  return text;
}

std::string options_text(const Job::Strategy& strategy) {
  std::string text;
  for (const auto& [plugin, options] : strategy.options) {
    text += fmt::format("\n[strategy.options.{}]\n", key_text(plugin));
    for (const auto& [key, value] : options) text += fmt::format("{} = {}\n", key_text(key), toml_text(value));
  }
  return text;
}

bool sets_something(const UnitOverride& entry) {
  return entry.after_forward || entry.after_backward || entry.reduce || entry.prefetch_forward ||
         entry.prefetch_backward || entry.param_dtype;
}

// Once the command line's entries stand in a file, a name there beats them. So a field of a named entry goes that a
// glob of the command line had beaten, and an entry that has none left goes; globs need nothing, the later one wins.
std::vector<UnitOverride> flattened(const std::vector<UnitOverride>& units) {
  std::vector<UnitOverride> out;
  for (UnitOverride entry : units) {
    for (const UnitOverride& later : units) {
      if (entry.command_line || base::is_glob(entry.match)) break;
      if (!later.command_line || !base::is_glob(later.match) || !base::glob_match(later.match, entry.match)) continue;
      if (later.after_forward) entry.after_forward.reset();
      if (later.after_backward) entry.after_backward.reset();
      if (later.reduce) entry.reduce.reset();
      if (later.prefetch_forward) entry.prefetch_forward.reset();
      if (later.prefetch_backward) entry.prefetch_backward.reset();
      if (later.param_dtype) entry.param_dtype.reset();
    }
    if (sets_something(entry)) out.push_back(std::move(entry));
  }
  return out;
}

std::string after_forward_text(AfterForward value) {
  return value.kind == AfterForward::Kind::shrink ? value_text(value) : quoted_text(value_text(value));
}

std::string unit_text(const UnitOverride& entry) {
  std::string text = fmt::format("\n[[strategy.unit]]\nmatch = {}\n", quoted_text(entry.match));
  if (entry.after_forward) text += fmt::format("after_forward = {}\n", after_forward_text(entry.after_forward->value));
  if (entry.after_backward)
    text += fmt::format("after_backward = {}\n", quoted_text(value_text(entry.after_backward->value)));
  if (entry.reduce) text += fmt::format("reduce = {}\n", quoted_text(value_text(entry.reduce->value)));
  if (entry.prefetch_forward) text += fmt::format("prefetch_forward = {}\n", entry.prefetch_forward->value);
  if (entry.prefetch_backward) text += fmt::format("prefetch_backward = {}\n", entry.prefetch_backward->value);
  if (entry.param_dtype) text += fmt::format("param_dtype = {}\n", quoted_text(name(entry.param_dtype->value)));
  return text;
}

std::string lists_text(const Job::Strategy& strategy) {
  std::string text;
  for (const UnitOverride& entry : flattened(strategy.units)) text += unit_text(entry);
  for (const Job::Variant& variant : strategy.variants)
    text += fmt::format("\n[[strategy.variant]]\nname = {}\nplugin = {}\noptions = {}\n", quoted_text(variant.name),
                        quoted_text(variant.plugin), inline_table_text(variant.options));
  for (const Job::Switch& change : strategy.switches)
    text += fmt::format("\n[[strategy.switch]]\nat_step = {}\nplugin = {}\noptions = {}\n", change.at_step,
                        quoted_text(change.plugin), inline_table_text(change.options));
  return text;
}

std::string groups_text(const std::vector<Job::Group>& groups) {
  std::string text;
  for (const Job::Group& group : groups) {
    text += fmt::format("\n[[optimizer.group]]\nmatch = {}\n", quoted_text(group.match));
    if (group.lr_scale) text += fmt::format("lr_scale = {}\n", toml_text(OptionValue{*group.lr_scale, ""}));
    if (group.weight_decay) text += fmt::format("weight_decay = {}\n", toml_text(OptionValue{*group.weight_decay, ""}));
  }
  return text;
}

std::string pins_text(const std::vector<Job::Pin>& pins) {
  std::string text;
  for (const Job::Pin& pin : pins)
    text += fmt::format("\n[[plugins.pin]]\nname = {}\nsha256 = {}\n", quoted_text(pin.name), quoted_text(pin.sha256));
  return text;
}

}  // namespace

std::string write(const Job& job, const Tables& program) {
  Job copy = job;  // tables bind to fields that can be written
  std::string text;
  for (const Table& table : job_tables(copy)) {
    text += (text.empty() ? "" : "\n") + table_text(table);
    if (table.name() == "strategy") text += options_text(job.strategy) + lists_text(job.strategy);
    if (table.name() == "optimizer.schedule") text += groups_text(job.optimizer.groups);
    if (table.name() == "plugins") text += pins_text(job.plugins.pins);
  }
  for (const Table& table : program) text += "\n" + table_text(table);
  return text;
}

}  // namespace reshard::config
