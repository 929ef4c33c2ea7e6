#include "cli/replaced.h"

#include <fmt/format.h>

#include "config/job_tables.h"
#include "config/value.h"

namespace reshard::cli {
namespace {

// A key's value as TOML, of the core's tables, the program's, or a plugin's options.
std::string value_of(const LoadedJob& loaded, const Tables& core, const std::string& key) {
  for (const Tables* tables : {&core, &loaded.tables})
    for (const Table& table : *tables)
      if (key.starts_with(table.name() + "."))
        if (const std::string rest = key.substr(table.name().size() + 1); table.has(rest)) return table.text(rest);
  for (const auto& [name, options] : loaded.job.strategy.options)
    for (const auto& [option, value] : options)
      if (key == fmt::format("strategy.options.{}.{}", name, option)) return config::toml_text(value);
  return "";
}

}  // namespace

std::vector<ReplacedValue> replaced_values(const LoadedJob& loaded) {
  Job job = loaded.job;  // tables bind to fields that can be written
  const Tables core = config::job_tables(job);
  std::vector<ReplacedValue> values;
  for (const auto& [key, was] : loaded.job.replaced)
    values.push_back({key, value_of(loaded, core, key), loaded.job.where(key), was.text, was.where});
  return values;
}

std::string replaced_text(const std::vector<ReplacedValue>& values, const Style& style) {
  if (values.empty()) return "";
  std::string text = style.strong("replaced on the command line") + "\n";
  for (const ReplacedValue& one : values)
    text += fmt::format("  {} {} ({}); {} said {}\n", one.key, one.value.empty() ? "is not set" : "= " + one.value,
                        one.by, one.where, one.was);
  return text;
}

Json replaced_json(const std::vector<ReplacedValue>& values) {
  Json json = Json::object();
  for (const ReplacedValue& one : values)
    json[one.key] = {
        {"value", toml_value(one.value)}, {"by", one.by}, {"was", toml_value(one.was)}, {"where", one.where}};
  return json;
}

}  // namespace reshard::cli
