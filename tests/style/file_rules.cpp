#include <algorithm>
#include <filesystem>
#include <string_view>

#include "tests/style/rules.h"

namespace reshard::style {
namespace {

// The text of a CMakeLists.txt without its comments.
std::string cmake_code(const std::string& text) {
  std::string out;
  bool comment = false;
  for (const char c : text) {
    if (c == '#') comment = true;
    if (c == '\n') comment = false;
    if (!comment) out.push_back(c);
  }
  return out;
}

bool lists(const std::string& cmake, const std::string& name) {
  for (std::size_t at = cmake.find(name); at != std::string::npos; at = cmake.find(name, at + 1)) {
    const char before = at == 0 ? ' ' : cmake[at - 1];
    const char after = at + name.size() < cmake.size() ? cmake[at + name.size()] : ' ';
    if ((std::string_view(" \n\t(/;\"").find(before) != std::string_view::npos) &&
        (std::string_view(" \n\t);\"").find(after) != std::string_view::npos))
      return true;
  }
  return false;
}

bool exists(const Tree& tree, const std::string& path) {
  if (path.empty() || path == "." || tree.files.count(path) != 0) return true;
  const auto after = tree.files.lower_bound(path + "/");
  return after != tree.files.end() && starts_with(after->first, path + "/");
}

// "docs/../README.md" → "README.md"; without a trailing slash.
std::string normal(const std::string& path) {
  std::string text = std::filesystem::path(path).lexically_normal().generic_string();
  while (!text.empty() && text.back() == '/') text.pop_back();
  return text;
}

// Markdown with its code blanked: a lambda's "[&](int a)" is no link.
std::string prose(std::string text) {
  bool fenced = false, quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool line_start = i == 0 || text[i - 1] == '\n';
    if (line_start && text.compare(i, 3, "```") == 0) {
      fenced = !fenced;
      for (; i < text.size() && text[i] != '\n'; ++i) text[i] = ' ';
      continue;
    }
    if (text[i] == '\n')
      quoted = quoted && fenced;
    else if (!fenced && text[i] == '`')
      quoted = !quoted;
    else if (fenced || quoted)
      text[i] = ' ';
  }
  return text;
}

}  // namespace

std::vector<Finding> check_tests_listed(const Tree& tree) {
  std::vector<Finding> found;
  for (const auto& [path, text] : tree.files) {
    if (!starts_with(path, "tests/") || !ends_with(path, "_test.cpp")) continue;
    bool listed = false;
    for (std::string folder = folder_of(path); !folder.empty() && !listed; folder = folder_of(folder)) {
      const auto list = tree.files.find(folder + "/CMakeLists.txt");
      listed = list != tree.files.end() && lists(cmake_code(list->second), file_name(path));
    }
    if (!listed)
      found.push_back(
          {path, 1, "test-listed",
           "no CMakeLists.txt above it builds this test; add it to " + folder_of(path) + "/CMakeLists.txt"});
  }
  return found;
}

std::vector<Finding> check_file_names(const Tree& tree) {
  static constexpr std::string_view banned[] = {"util", "utils", "common", "misc", "manager", "helper", "helpers"};
  std::vector<Finding> found;
  for (const auto& [path, text] : tree.files) {
    const std::string name = file_name(path);
    for (const std::string& part : parts(path))
      if (std::find(std::begin(banned), std::end(banned), part) != std::end(banned))
        found.push_back({path, 1, "file-name", "'" + part + "' says nothing; name the file after what is in it"});
    const bool upper = std::any_of(name.begin(), name.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
    if (is_cpp(path) && (upper || name.find('-') != std::string::npos))
      found.push_back({path, 1, "file-name", "source files are snake_case"});
  }
  return found;
}

std::vector<Finding> check_links(const Tree& tree) {
  std::vector<Finding> found;
  for (const auto& [path, markdown] : tree.files) {
    if (!ends_with(path, ".md")) continue;
    const std::string text = prose(markdown);
    for (std::size_t at = text.find("]("); at != std::string::npos; at = text.find("](", at + 2)) {
      const std::size_t end = text.find_first_of(")\n", at);
      if (end == std::string::npos || text[end] != ')') continue;
      std::string target = text.substr(at + 2, end - at - 2);
      target.resize(std::min({target.size(), target.find('#'), target.find(' ')}));
      if (target.empty() || target.find("://") != std::string::npos || starts_with(target, "mailto:")) continue;
      const std::string folder = folder_of(path);
      const std::string place = normal(folder.empty() ? target : folder + "/" + target);
      if (starts_with(target, "/") || !exists(tree, place))
        found.push_back({path, line_at(text, at), "dead-link", "'" + target + "' leads nowhere in this repository"});
    }
  }
  return found;
}

std::vector<Finding> check_machine_paths(const Tree& tree) {
  // Written in halves, so that this file does not find itself.
  static constexpr std::string_view roots[] = {
      "/wo"
      "rk/",
      "/ho"
      "me/",
      "/ro"
      "ot/",
      "/Us"
      "ers/",
      "/tmp/"
      "b-"};
  std::vector<Finding> found;
  for (const auto& [path, text] : tree.files)
    for (const std::string_view root : roots)
      for (std::size_t at = text.find(root); at != std::string::npos; at = text.find(root, at + 1)) {
        const bool inner = at > 0 && (is_word_char(text[at - 1]) || text[at - 1] == '.' || text[at - 1] == '}');
        if (!inner)
          found.push_back({path, line_at(text, at), "machine-path",
                           "'" + std::string(root) + "…' exists on one machine only; write it relative"});
      }
  return found;
}

}  // namespace reshard::style
