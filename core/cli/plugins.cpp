#include "cli/plugins.h"

#include <algorithm>
#include <filesystem>
#include <functional>

#include <fmt/format.h>

#include "cli/report_file.h"
#include "config/document.h"
#include "config/override.h"
#include "config/read.h"
#include "config/reader.h"
#include "reshard/error.h"

namespace reshard::cli {
namespace {

constexpr std::size_t kShownHash = 16;  // characters of a SHA-256 in a table; the JSON has it whole

Json listed_json(const std::vector<plugin::SearchFolder>& folders, const std::vector<plugin::Listed>& listed) {
  Json json{{"folders", Json::array()}, {"strategies", Json::array()}};
  for (const plugin::SearchFolder& folder : folders)
    json["folders"].push_back({{"path", folder.path.string()}, {"rule", folder.rule}});
  for (const plugin::Listed& one : listed) {
    Json entry{{"name", one.name}, {"state", name(one.state)},  {"version", one.version},
               {"abi", one.abi},   {"file", one.file.string()}, {"rule", one.rule}};
    if (!one.sha256.empty()) entry["required_abi"] = one.required_abi, entry["sha256"] = one.sha256;
    if (!one.reason.empty()) entry["reason"] = one.reason;
    json["strategies"].push_back(std::move(entry));
  }
  return json;
}

Json described_json(const plugin::StrategyInfo& info) {
  Json json{{"name", info.name},
            {"version", info.version},
            {"vendor", info.vendor},
            {"summary", info.summary},
            {"build", info.build},
            {"abi", info.abi},
            {"required_abi", info.required_abi},
            {"file", info.file.string()},
            {"options", Json::array()}};
  for (const plugin::OptionInfo& option : info.options)
    json["options"].push_back({{"name", option.name},
                               {"type", option.type},
                               {"required", option.required},
                               {"default", option.fallback},
                               {"range", option.range},
                               {"doc", option.doc}});
  return json;
}

Job::Plugins plugin_rules_of(const std::string& file) {
  config::Block document = config::parse_document(config::job_text(file), file);
  std::erase_if(document.entries, [](const config::Entry& entry) { return entry.key != "plugins"; });
  Job job;
  Tables none;
  config::Reader(job, none, std::filesystem::path(file).parent_path().string()).read(document);
  return job.plugins;
}

std::string nothing_found(const std::vector<plugin::SearchFolder>& folders) {
  std::string text = "no strategies found; folders searched:\n";
  for (const plugin::SearchFolder& folder : folders)
    text += fmt::format("  {}  ({})\n", plugin::short_path(folder.path.string()), folder.rule);
  return text;
}

}  // namespace

std::vector<std::string> usable_strategies() {
  std::vector<std::string> names;
  try {
    for (const plugin::Listed& one : plugin::list(plugin::search_folders()))
      if (one.state == plugin::Listed::State::usable) names.push_back(one.name);
  } catch (const std::exception&) {
    // A bad search path is reported by the command that needs it; an example in a help page does not.
  }
  std::sort(names.begin(), names.end(), std::greater<>());
  return names;
}

Job::Plugins plugin_rules(const CommandLine& line) {
  return line.files.empty() ? Job::Plugins() : plugin_rules_of(line.files.front());
}

std::string list_text(const std::vector<plugin::SearchFolder>& folders, const std::vector<plugin::Listed>& listed,
                      bool all, const Style& style) {
  if (listed.empty()) return nothing_found(folders);
  std::vector<std::string> columns{"strategy", "version", "ABI", "state"};
  if (all) columns.insert(columns.end(), {"runs on hosts from", "named by", "sha256"});
  columns.push_back("file");
  base::TextTable table(columns);
  const auto shown = [](const std::string& text) { return text.empty() ? std::string("-") : text; };
  std::string reasons;
  int shadowed = 0;
  for (const plugin::Listed& one : listed) {
    const std::string file = plugin::short_path(one.file.string());
    if (one.state == plugin::Listed::State::shadowed && !all) {
      ++shadowed;
      continue;
    }
    std::vector<std::string> row{one.name, shown(one.version), shown(one.abi), name(one.state)};
    if (all) row.insert(row.end(), {shown(one.required_abi), one.rule, shown(one.sha256.substr(0, kShownHash))});
    row.push_back(file);
    table.add(row);
    if (one.state == plugin::Listed::State::refused)
      reasons += fmt::format("  {} is refused: {}\n", file, safe_text(one.reason));
    if (one.state == plugin::Listed::State::shadowed) reasons += fmt::format("  {} is shadowed {}\n", file, one.reason);
  }
  if (shadowed > 0)
    reasons += shadowed == 1 ? "  1 shadowed file is left out; --all shows it\n"
                             : fmt::format("  {} shadowed files are left out; --all shows them\n", shadowed);
  return style.table(table) + (reasons.empty() ? "" : "\n" + reasons);
}

std::string describe_text(const plugin::StrategyInfo& info, const Style& style) {
  std::string text = fmt::format("{} {}: {}\n\n", style.strong(info.name), info.version, safe_text(info.summary));
  std::vector<std::vector<std::string>> facts;
  facts.push_back({"file", plugin::short_path(info.file.string())});
  if (!info.vendor.empty()) facts.push_back({"vendor", safe_text(info.vendor)});
  if (!info.build.empty()) facts.push_back({"build", safe_text(info.build)});
  facts.push_back({"ABI", info.required_abi == info.abi
                              ? info.abi
                              : fmt::format("{}, runs on hosts from {}", info.abi, info.required_abi)});
  text += rows_text(facts, "  ");
  if (info.options.empty()) return text + "\nIt has no options.\n";
  base::TextTable options({"option", "type", "default", "range", "meaning"});
  for (const plugin::OptionInfo& option : info.options)
    options.add({option.name, option.type, option.required ? "required" : option.fallback,
                 option.range.empty() ? "any" : option.range, safe_text(option.doc)});
  text += "\n" + style.table(options, "  ");
  text += fmt::format("\nIn a job:\n  [strategy]\n  plugin = \"{0}\"\n\n  [strategy.options.{0}]\n", info.name);
  for (const plugin::OptionInfo& option : info.options)
    text += option.required ? fmt::format("  {} =  # required\n", option.name)
                            : fmt::format("  {} = {}\n", option.name, option.fallback);
  return text;
}

void list_plugins(const CommandLine& line, const Face&, Output& output) {
  const Job::Plugins rules = plugin_rules(line);
  const auto folders = plugin::search_folders(rules);
  const auto listed = plugin::list(folders, rules);
  write_json(line.json, listed_json(folders, listed));
  output.print(list_text(folders, listed, line.all, output.style()));
}

void describe_plugin(const CommandLine& line, const Face& face, Output& output) {
  const std::string wanted = config::strategy_from_command_line(line.name);
  const plugin::Found found =
      plugin::find(wanted, plugin::search_folders(), fmt::format("{} plugins describe", face.name));
  const plugin::Strategy strategy = plugin::Strategy::load(found.file);
  write_json(line.json, described_json(strategy.info()));
  output.print(describe_text(strategy.info(), output.style()));
}

}  // namespace reshard::cli
