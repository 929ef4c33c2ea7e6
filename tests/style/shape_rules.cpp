#include <algorithm>
#include <string_view>

#include "tests/style/outline.h"
#include "tests/style/rules.h"

namespace reshard::style {
namespace {

constexpr int kFileLines = 400;
constexpr int kFunctionLines = 70;

bool runs_in_ranks(const Source& source) {
  return starts_with(source.path, "core/") || starts_with(source.path, "sdk/include/") ||
         starts_with(source.path, "plugins/") || starts_with(source.path, "examples/");
}

// By #pragma once; in the SDK, which goes to compilers that we do not know, a guard does as well.
bool is_read_once(const Source& source) {
  const auto& directives = source.directives;
  if (directives.empty()) return false;
  const Directive& first = directives.front();
  if (first.name == "pragma") return parts(first.rest) == std::vector<std::string>{"once"};
  const bool of_sdk = starts_with(source.path, "sdk/") || starts_with(source.path, "tests/sdk/abi_");  // frozen ones, too
  return of_sdk && first.name == "ifndef" && directives.size() > 1 &&
         directives[1].name == "define" && directives[1].rest == first.rest;
}

}  // namespace

std::vector<Finding> check_mutable_globals(const Tree& tree) {
  std::vector<Finding> found;
  for (const Source& source : tree.sources) {
    if (!runs_in_ranks(source)) continue;
    for (const Variable& variable : outline(source).mutables)
      found.push_back(
          {source.path, variable.line, "mutable-global",
           "ranks are threads and would share '" + variable.text + "'; make it const or a member of what owns it"});
  }
  return found;
}

std::vector<Finding> check_file_length(const Tree& tree) {
  std::vector<Finding> found;
  for (const Source& source : tree.sources)
    if (const int lines = line_count(source.text); lines > kFileLines)
      found.push_back(
          {source.path, lines, "file-length",
           std::to_string(lines) + " lines, " + std::to_string(kFileLines) + " are allowed; split it by noun"});
  for (const auto& [path, text] : tree.files)
    if (file_name(path) == "CMakeLists.txt" || ends_with(path, ".cmake"))
      if (const int lines = line_count(text); lines > kFileLines)
        found.push_back({path, lines, "file-length", std::to_string(lines) + " lines of CMake; split it by folder"});
  return found;
}

std::vector<Finding> check_function_length(const Tree& tree) {
  std::vector<Finding> found;
  for (const Source& source : tree.sources)
    for (const Function& function : outline(source).functions)
      if (const int lines = function.last_line - function.first_line + 1; lines > kFunctionLines)
        found.push_back({source.path, function.first_line, "function-length",
                         "'" + function.head + "' has " + std::to_string(lines) + " lines, " +
                             std::to_string(kFunctionLines) + " are allowed; give a part of it a name of its own"});
  return found;
}

// A header says what it is before it declares anything.
std::vector<Finding> check_headers(const Tree& tree) {
  std::vector<Finding> found;
  for (const Source& source : tree.sources) {
    if (!ends_with(source.path, ".h") && !ends_with(source.path, ".hpp")) continue;
    if (starts_with(source.path, "tests/misuse/")) continue;  // broken on purpose, and included for what they define
    if (!is_read_once(source)) found.push_back({source.path, 1, "header", "begin with #pragma once"});
    const std::size_t first_code = std::min(source.statements.find_first_not_of(" \n"), source.text.find("#include"));
    const std::size_t first_note = std::min(source.text.find("//"), source.text.find("/*"));
    if (first_note > first_code)
      found.push_back({source.path, 1, "header", "open with a paragraph on what this is, before the first include"});
  }
  return found;
}

}  // namespace reshard::style
