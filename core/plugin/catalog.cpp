#include "plugin/catalog.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "plugin/file.h"
#include "reshard/error.h"
#include "reshard/text.h"

// Defined by programs that are built with find_package(reshard): the strategies of the package that they were built
// with.
extern "C" __attribute__((weak)) const char reshard_package_strategies[];

namespace reshard::plugin {
namespace {

namespace fs = std::filesystem;

// The names of the *.so in a folder, sorted; none when the folder cannot be read.
std::vector<std::string> stems(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (at->path().extension() == ".so") names.push_back(at->path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

bool is_path(const std::string& plugin) {
  return plugin.find('/') != std::string::npos || plugin.ends_with(".so");
}

bool present(const fs::path& path) {
  std::error_code error;
  return fs::symlink_status(path, error).type() != fs::file_type::not_found;
}

void add_environment(std::vector<SearchFolder>& folders) {
  const char* value = secure_getenv("RESHARD_PLUGIN_PATH");
  if (value == nullptr || *value == '\0') return;
  for (std::string_view rest = value;;) {
    const std::size_t colon = rest.find(':');
    const fs::path path(rest.substr(0, colon));
    if (!path.is_absolute())
      throw Error(ErrorCode::config, fmt::format("has the entry \"{}\"", path.string()), "RESHARD_PLUGIN_PATH",
                  "every entry must be an absolute path");
    folders.push_back({path.lexically_normal(), "RESHARD_PLUGIN_PATH"});
    if (colon == std::string_view::npos) return;
    rest.remove_prefix(colon + 1);
  }
}

// An installed package may have been moved, so what lies around the program counts before what a build was told.
fs::path installed_folder(const fs::path& program) {
  std::error_code error;
  const fs::path near = (program.parent_path() / RESHARD_STRATEGIES_FROM_BIN).lexically_normal();
  if (!program.empty() && fs::is_directory(near, error)) return near;
  if (reshard_package_strategies != nullptr) return reshard_package_strategies;
  return RESHARD_INSTALLED_STRATEGIES;
}

}  // namespace

std::vector<SearchFolder> search_folders(const Job::Plugins& rules) {
  std::vector<SearchFolder> folders;
  for (const std::string& text : rules.path) {
    const fs::path path(text);
    if (!path.is_absolute())
      throw Error(ErrorCode::config, fmt::format("[plugins].path has the entry \"{}\"", text), {},
                  "every entry must be an absolute path");
    folders.push_back({path.lexically_normal(), "[plugins].path"});
  }
  if (rules.env_path) add_environment(folders);
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error) folders.push_back({program.parent_path().parent_path() / "plugins", "beside the program"});
  folders.push_back({installed_folder(program), "installed"});
  return folders;
}

std::string short_path(const std::string& path) {
  std::error_code status;
  const std::string here = fs::current_path(status).string() + "/";
  return !status && here.size() > 1 && path.starts_with(here) ? path.substr(here.size()) : path;
}

Found find(const std::string& plugin, const std::vector<SearchFolder>& folders, const std::string& where,
           const fs::path& base) {
  if (is_path(plugin)) {
    const fs::path file = fs::absolute(base / plugin).lexically_normal();
    if (present(file)) return {file, "path"};
    throw Error(ErrorCode::plugin, fmt::format("there is no strategy {}", short_path(file.string())), where,
                "check the path");
  }
  std::vector<std::string> tried, names;
  for (const SearchFolder& folder : folders) {
    const fs::path file = folder.path / (plugin + ".so");
    if (present(file)) return {file, folder.rule};
    tried.push_back(fmt::format("{} ({})", short_path(file.string()), folder.rule));
    for (std::string& name : stems(folder.path)) names.push_back(std::move(name));
  }
  std::string near = base::nearest(plugin, names);
  throw Error(ErrorCode::plugin, fmt::format("there is no strategy \"{}\"; tried {}", plugin, base::list_text(tried)),
              where,
              near.empty() ? "name its folder in [plugins].path or RESHARD_PLUGIN_PATH, or give the path of the file"
                           : fmt::format("did you mean \"{}\"?", near));
}

const char* name(SearchStep::Outcome outcome) {
  switch (outcome) {
    case SearchStep::Outcome::absent: return "absent";
    case SearchStep::Outcome::taken: return "taken";
    case SearchStep::Outcome::refused: return "refused";
    case SearchStep::Outcome::shadowed: return "shadowed";
  }
  return "";
}

std::vector<SearchStep> trace(const std::string& plugin, const std::vector<SearchFolder>& folders,
                              const Job::Plugins& rules) {
  std::vector<SearchStep> steps;
  if (is_path(plugin)) {
    steps.push_back({fs::absolute(plugin).lexically_normal(), "path", {}, {}});
  } else {
    for (const SearchFolder& folder : folders) steps.push_back({folder.path / (plugin + ".so"), folder.rule, {}, {}});
  }
  const SearchStep* first = nullptr;
  for (SearchStep& step : steps) {
    if (!present(step.file)) continue;
    if (first != nullptr) {
      step.outcome = SearchStep::Outcome::shadowed;
      step.reason = "by " + short_path(first->file.string());
      continue;
    }
    first = &step;
    try {
      const FileInfo file = inspect(step.file, rules);
      step.outcome = SearchStep::Outcome::taken;
      step.reason = fmt::format("{} {}, ABI {}.{}, sha256 {}", file.name, file.version, file.abi_major, file.abi_minor,
                                file.sha256);
    } catch (const Error& error) {
      step.outcome = SearchStep::Outcome::refused;
      step.reason = fmt::format("{} ({}) [{}]", error.message(), error.remedy(), error.id());
    }
  }
  return steps;
}

std::vector<std::string> installed_names(const std::vector<SearchFolder>& folders) {
  std::vector<std::string> names;
  for (const SearchFolder& folder : folders)
    for (std::string& name : stems(folder.path)) names.push_back(std::move(name));
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

const char* name(Listed::State state) {
  switch (state) {
    case Listed::State::usable: return "usable";
    case Listed::State::shadowed: return "shadowed";
    case Listed::State::refused: return "refused";
  }
  return "";
}

std::vector<Listed> list(const std::vector<SearchFolder>& folders, const Job::Plugins& rules) {
  std::vector<Listed> all;
  std::map<std::string, fs::path> first;  // by name: the file that wins, usable or not
  for (const SearchFolder& folder : folders) {
    for (const std::string& stem : stems(folder.path)) {
      Listed item;
      item.name = stem;
      item.file = folder.path / (stem + ".so");
      item.rule = folder.rule;
      try {
        const FileInfo file = inspect(item.file, rules);
        item.version = file.version;
        item.abi = fmt::format("{}.{}", file.abi_major, file.abi_minor);
        item.required_abi = fmt::format("{}.{}", file.abi_major, file.required_host_minor);
        item.sha256 = file.sha256;
      } catch (const Error& error) {
        item.state = Listed::State::refused;
        item.reason = error.message();
      }
      const auto [winner, is_first] = first.emplace(stem, item.file);
      if (!is_first && item.state == Listed::State::usable) {
        item.state = Listed::State::shadowed;
        item.reason = "by " + winner->second.string();
      }
      all.push_back(std::move(item));
    }
  }
  return all;
}

}  // namespace reshard::plugin
