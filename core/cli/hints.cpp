#include "cli/hints.h"

#include <algorithm>
#include <filesystem>
#include <string_view>

#include <fmt/format.h>

#include "cli/plugins.h"
#include "reshard/compare.h"

namespace reshard::cli {
namespace {

constexpr std::size_t kArms = 3;  // in a hint

// A strategy as it can be typed: names as they are, files relative to this folder.
std::string typed_name(const std::string& plugin) {
  return plugin.find('/') == std::string::npos ? plugin : "./" + std::filesystem::proximate(plugin).string();
}

// One word for the shell.
std::string quoted(const std::string& text) {
  constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./=:,+-@%";
  if (!text.empty() && text.find_first_not_of(plain) == std::string::npos) return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

// Options under which every arm has a turn of the usual length.
std::string with_enough_steps(std::string options, int64_t steps, std::size_t arms) {
  const int64_t needed = static_cast<int64_t>(arms) * CompareOptions{}.block_steps;
  if (steps >= needed) return options;
  const std::string option = " --steps ";
  if (const std::size_t begin = options.find(option); begin != std::string::npos)
    options.erase(begin, std::min(options.find(' ', begin + option.size()), options.size()) - begin);
  return options + option + std::to_string(needed);
}

}  // namespace

std::string next_line(const std::string& command) {
  return command.empty() ? "" : "next: " + command + "\n";
}

std::string repeated_options(const Face& face, const CommandLine& line) {
  const config::Overrides& said = line.overrides;
  std::string options;
  const auto add = [&](const std::string& option, const std::string& value) {
    options += " " + option + " " + quoted(value);
  };
  if (said.ranks) add("--ranks", std::to_string(*said.ranks));
  if (line.processes) options += " --processes";
  if (said.steps) add("--steps", std::to_string(*said.steps));
  for (const std::string& value : said.set) add("--set", value);
  const auto add_for_every_unit = [&] {
    if (said.reshard_after_forward)
      options +=
          " --reshard-after-forward" + (said.reshard_after_forward->empty() ? "" : "=" + *said.reshard_after_forward);
    if (said.no_reshard_after_forward) options += " --no-reshard-after-forward";
  };
  for (std::size_t i = 0; i < said.units.size(); ++i) {
    if (i == said.units_before) add_for_every_unit();
    add("--unit", said.units[i]);
  }
  if (said.units_before >= said.units.size()) add_for_every_unit();
  for (const ProgramFlag& flag : face.flags)
    if (flag.target != nullptr && !flag.target->empty()) add(flag.name, *flag.target);
  return options;
}

std::string train_hint(const Face& face, const Job& job, const CommandLine& line) {
  const std::string strategy = line.overrides.strategy ? " --strategy " + quoted(*line.overrides.strategy) : "";
  return fmt::format("{} train {}{}{}", face.typed, job.file, strategy, repeated_options(face, line));
}

std::string explain_hint(const Face& face, const Job& job, const std::string& strategy, const std::string& options) {
  return fmt::format("{} explain {} --strategy {}{}", face.typed, job.file, quoted(strategy), options);
}

std::string compare_hint(const Face& face, const Job& job, const std::vector<std::string>& arms,
                         const std::string& options) {
  std::vector<std::string> names = arms;
  if (names.size() < 2) {
    if (names.empty() && !job.strategy.plugin.empty()) names.push_back(typed_name(job.strategy.plugin));
    for (const std::string& other : face.installed ? face.installed() : std::vector<std::string>())
      if (names.size() < kArms && std::find(names.begin(), names.end(), other) == names.end()) names.push_back(other);
  }
  if (names.size() < 2) return "";
  return fmt::format("{} compare {} --strategies {}{}", face.typed, job.file, fmt::join(names, ","),
                     with_enough_steps(options, job.train.steps, names.size()));
}

}  // namespace reshard::cli
