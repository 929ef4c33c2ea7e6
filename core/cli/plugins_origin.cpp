#include "cli/plugins_origin.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include <fmt/format.h>

#include "cli/plugins.h"
#include "cli/report_file.h"
#include "config/override.h"
#include "plugin/catalog.h"
#include "plugin/file.h"
#include "reshard/text.h"

namespace reshard::cli {
namespace {

using Outcome = plugin::SearchStep::Outcome;

std::string files_text(const std::filesystem::path& folder) {
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) return "not there";
  const std::size_t count = plugin::installed_names({{folder, ""}}).size();
  return count == 1 ? "1 file" : fmt::format("{} files", count);
}

std::string conclusion(const std::string& name, const std::vector<plugin::SearchStep>& steps, const Style& style) {
  for (const plugin::SearchStep& step : steps) {
    if (step.outcome == Outcome::taken)
      return fmt::format("{} is {}\n", style.strong(name), plugin::short_path(step.file.string()));
    if (step.outcome == Outcome::refused)
      return style.bad(fmt::format("{} is refused: the first file of that name decides, whatever is in it", name)) + "\n";
  }
  return style.bad(fmt::format("there is no strategy {}", name)) + "\n";
}

}  // namespace

void show_plugin_paths(const CommandLine& line, Output& output) {
  const auto folders = plugin::search_folders(plugin_rules(line));
  Json json{{"folders", Json::array()}};
  base::TextTable table({"", "folder", "named by", "holds"});
  int number = 0;
  for (const plugin::SearchFolder& folder : folders) {
    const std::string holds = files_text(folder.path);
    table.add({std::to_string(++number), plugin::short_path(folder.path.string()), folder.rule, holds});
    json["folders"].push_back({{"path", folder.path.string()}, {"rule", folder.rule}, {"holds", holds}});
  }
  write_json(line.json, json);
  output.print(output.style().table(table));
}

int explain_plugin(const CommandLine& line, Output& output) {
  const std::string wanted = config::strategy_from_command_line(line.name);
  const Job::Plugins rules = plugin_rules(line);
  const auto steps = plugin::trace(wanted, plugin::search_folders(rules), rules);
  Json json{{"name", line.name}, {"steps", Json::array()}};
  base::TextTable table({"file", "named by", "", "because"});
  for (const plugin::SearchStep& step : steps) {
    table.add({plugin::short_path(step.file.string()), step.rule, name(step.outcome),
               step.reason.empty() ? "there is no such file" : safe_text(step.reason)});
    json["steps"].push_back({{"file", step.file.string()},
                             {"rule", step.rule},
                             {"outcome", name(step.outcome)},
                             {"reason", step.reason}});
  }
  write_json(line.json, json);
  output.print(output.style().table(table) + "\n" + conclusion(line.name, steps, output.style()));
  const bool taken = std::any_of(steps.begin(), steps.end(),
                                 [](const plugin::SearchStep& step) { return step.outcome == Outcome::taken; });
  return taken ? 0 : 2;
}

void pin_plugin(const CommandLine& line, const Face& face, Output& output) {
  const std::string wanted = config::strategy_from_command_line(line.name);
  Job::Plugins rules = plugin_rules(line);
  const auto found = plugin::find(wanted, plugin::search_folders(rules), fmt::format("{} plugins pin", face.name));
  rules.pins.clear();  // what this is asked for
  if (rules.trust == "pinned") rules.trust = "owner";
  const plugin::FileInfo file = plugin::inspect(found.file, rules);
  write_json(line.json, {{"name", file.name}, {"sha256", file.sha256}, {"file", file.path.string()}});
  output.print(fmt::format("# {} {}, {}\n[[plugins.pin]]\nname = \"{}\"\nsha256 = \"{}\"\n", file.name, file.version,
                           plugin::short_path(file.path.string()), file.name, file.sha256));
}

}  // namespace reshard::cli
