#include "cli/hints.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "cli/plugins.h"

namespace reshard::cli {
namespace {

constexpr std::size_t kArms = 3;  // in a hint

// A strategy as it can be typed: names as they are, files relative to this folder.
std::string typed_name(const std::string& plugin) {
  return plugin.find('/') == std::string::npos ? plugin : "./" + std::filesystem::proximate(plugin).string();
}

std::string strategy_option(const Job& job) {
  const std::string where = job.where("strategy.plugin");
  return where.starts_with("--strategy") ? " --strategy " + typed_name(job.strategy.plugin) : "";
}

}  // namespace

std::string next_line(const std::string& command) {
  return command.empty() ? "" : "next: " + command + "\n";
}

std::string train_hint(const Face& face, const Job& job) {
  return fmt::format("{} train {}{}", face.typed, job.file, strategy_option(job));
}

std::string explain_hint(const Face& face, const Job& job, const std::string& strategy) {
  return fmt::format("{} explain {} --strategy {}", face.typed, job.file, typed_name(strategy));
}

std::string compare_hint(const Face& face, const Job& job, const std::vector<std::string>& arms) {
  std::vector<std::string> names = arms;
  if (names.size() < 2) {
    if (names.empty() && !job.strategy.plugin.empty()) names.push_back(typed_name(job.strategy.plugin));
    for (const std::string& other : face.installed ? face.installed() : std::vector<std::string>())
      if (names.size() < kArms && std::find(names.begin(), names.end(), other) == names.end()) names.push_back(other);
  }
  if (names.size() < 2) return "";
  return fmt::format("{} compare {} --strategies {}", face.typed, job.file, fmt::join(names, ","));
}

}  // namespace reshard::cli
