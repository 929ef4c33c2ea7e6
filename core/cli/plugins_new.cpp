#include "cli/plugins_new.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "plugin/catalog.h"
#include "reshard/error.h"

namespace reshard::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestName = 63;  // as the ABI's note holds it

void check_name(const std::string& name, const std::string& where) {
  const auto allowed = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  const bool good = name[0] >= 'a' && name[0] <= 'z' && std::all_of(name.begin(), name.end(), allowed);
  if (!good || name.size() > kLongestName)
    throw Error(
        ErrorCode::config, fmt::format("\"{}\" is no name for a strategy", name), where,
        fmt::format("names match [a-z][a-z0-9_]*, have at most {} characters, and begin with who makes them, as "
                    "acme_mine does",
                    kLongestName));
  const std::vector<std::string> taken = plugin::installed_names(plugin::search_folders({}));
  if (std::binary_search(taken.begin(), taken.end(), name))
    throw Error(ErrorCode::config, fmt::format("\"{}\" is the name of an installed strategy", name), where,
                fmt::format("begin it with who makes it, as in acme_{}", name));
}

void check_folder(const std::string& folder, const std::string& where) {
  std::error_code status;
  const bool taken = fs::exists(fs::symlink_status(folder, status)) &&
                     !(fs::is_directory(folder, status) && fs::is_empty(folder, status));
  if (taken)
    throw Error(ErrorCode::config, fmt::format("{} is here already, and is no empty folder", folder), where,
                "choose another name, or another working directory");
}

using Words = std::vector<std::pair<std::string, std::string>>;

Words words_of(const std::string& name, bool c) {
  return {{"name", name},
          {"vendor", name.substr(0, name.find('_'))},
          {"language", c ? "C" : "CXX"},
          {"extension", c ? "c" : "cpp"},
          {"where", c ? "its descriptor and its RESHARD_NOTE" : "its RESHARD_STRATEGY"},
          {"flag", c ? " --lang c" : ""},
          {"reshard", RESHARD_VERSION}};
}

std::string filled(std::string text, const Words& words) {
  for (const auto& [word, value] : words) {
    const std::string mark = "{{" + word + "}}";
    for (std::size_t at = 0; (at = text.find(mark, at)) != std::string::npos; at += value.size())
      text.replace(at, mark.size(), value);
  }
  return text;
}

// The file's place in the new folder; empty: it is the other language's.
std::string place_of(std::string_view file, const std::string& name, const std::string& extension) {
  if (file.starts_with("strategy.")) return file == "strategy." + extension ? name + "." + extension : "";
  if (file == "ci_run") return ".ci/run";
  if (file == "gitignore") return ".gitignore";
  return std::string(file);
}

void write(const fs::path& path, const std::string& text) {
  std::error_code status;
  fs::create_directories(path.parent_path(), status);
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (!out) throw Error(ErrorCode::io, "cannot be written", path.string(), "check that this folder can be written to");
  if (text.starts_with("#!"))
    fs::permissions(path, fs::perms::owner_exec | fs::perms::group_exec | fs::perms::others_exec,
                    fs::perm_options::add);
}

}  // namespace

void new_plugin(const CommandLine& line, const Face& face, Output& output) {
  const std::string where = fmt::format("{} plugins new", face.name), &name = line.name;
  check_name(name, where);
  check_folder(name, where);
  const bool c = line.language == "c";
  const Words words = words_of(name, c);
  std::string made;
  for (const TemplateFile* file = kTemplateFiles; file->name != nullptr; ++file) {
    const std::string place = place_of(file->name, name, c ? "c" : "cpp");
    if (place.empty()) continue;
    write(fs::path(name) / place, filled(file->text, words));
    made += fmt::format("  {}/{}\n", name, place);
  }
  output.print(
      fmt::format("made\n{1}\nnext\n  cmake -S {0} -B build\n  cmake --build build\n"
                  "  {2} plugins check build/{0}.so\n  reshard-gpt train --strategy build/{0}.so\n",
                  name, made, face.typed));
}

}  // namespace reshard::cli
