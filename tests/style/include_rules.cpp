#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>

#include "tests/style/rules.h"

namespace reshard::style {
namespace {

// The folders of core/ in steps; a folder includes itself and the steps before its own.
struct Folder {
  std::string_view name;
  int step;
};
constexpr Folder kFolders[] = {
    {"base", 0},   {"model", 1},      {"trace", 1},  {"device", 1}, {"strategy", 2},
    {"memory", 2}, {"comm", 2},       {"optim", 2},  {"config", 3}, {"schedule", 3},
    {"plugin", 4}, {"checkpoint", 4}, {"engine", 5}, {"sim", 5},    {"cli", 6},
};

// A public header belongs to the folder whose code it declares.
struct PublicHeader {
  std::string_view name, folder;
};
constexpr PublicHeader kPublicHeaders[] = {
    {"dtype.h", "base"},        {"error.h", "base"},        {"report.h", "base"},     {"text.h", "base"},
    {"model.h", "model"},       {"options.h", "strategy"},  {"optimizer.h", "optim"}, {"table.h", "config"},
    {"job.h", "config"},        {"runtime.h", "engine"},    {"app.h", "cli"},         {"compare.h", "cli"},
    {"decision.h", "strategy"}, {"override.h", "strategy"},
};

constexpr std::string_view kPublic = "core/include/reshard/";
constexpr std::string_view kAbiHeader = "reshard/plugin.h";

std::optional<Folder> folder_named(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kFolders), std::end(kFolders), [&](const Folder& f) { return f.name == name; });
  return found == std::end(kFolders) ? std::nullopt : std::optional<Folder>(*found);
}

std::optional<Folder> public_folder(std::string_view header) {
  for (const PublicHeader& known : kPublicHeaders)
    if (known.name == header) return folder_named(known.folder);
  return std::nullopt;
}

// "core/comm/local/ring.h" and the include "comm/local/ring.h" belong to comm.
std::optional<Folder> folder_of_source(std::string_view path) {
  if (starts_with(path, kPublic)) return public_folder(path.substr(kPublic.size()));
  path.remove_prefix(std::string_view("core/").size());
  return folder_named(path.substr(0, path.find('/')));
}

bool is_standard(const std::string& header) {
  static constexpr std::string_view c_headers[] = {
      "assert.h", "ctype.h",  "errno.h",  "fenv.h",    "float.h",    "inttypes.h", "limits.h", "locale.h", "math.h",
      "stdarg.h", "stdint.h", "stddef.h", "stdbool.h", "stdalign.h", "stdio.h",    "stdlib.h", "string.h", "time.h"};
  return header.find_first_of("./") == std::string::npos ||
         std::find(std::begin(c_headers), std::end(c_headers), header) != std::end(c_headers);
}

}  // namespace

std::vector<Finding> check_include_order(const Tree& tree) {
  std::vector<Finding> found;
  const auto report = [&](const Source& source, int line, const std::string& remedy) {
    found.push_back({source.path, line, "include-order", remedy});
  };
  for (const Source& source : tree.sources) {
    if (!starts_with(source.path, "core/")) continue;
    const auto own = folder_of_source(source.path);
    if (!own) {
      report(source, 1,
             starts_with(source.path, kPublic)
                 ? "say in tests/style/include_rules.cpp to which folder this public header belongs"
                 : "this folder has no place in the include order; put the file into one that has");
      continue;
    }
    for (const Include& include : source.includes) {
      if (!include.quoted || include.path == kAbiHeader) continue;
      if (starts_with(source.path, kPublic) && !starts_with(include.path, "reshard/"))
        report(source, include.line,
               "a public header includes public headers alone: \"reshard/…\" or the standard library");
      const bool is_public = starts_with(include.path, "reshard/");
      const auto other = is_public ? public_folder(include.path.substr(8)) : folder_of_source("core/" + include.path);
      const std::string what = "\"" + include.path + "\"";
      if (!other)
        report(source, include.line,
               what + " is no header of core/; write folder/file.h, and <…> for what is not ours");
      else if (other->name != own->name && other->step >= own->step)
        report(source, include.line,
               std::string(own->name) + " may include only itself and what stands left of it, and " + what +
                   " belongs to " + std::string(other->name) + "; move the code or pass a value");
    }
  }
  return found;
}

std::vector<Finding> check_sdk_includes(const Tree& tree) {
  std::vector<Finding> found;
  for (const Source& source : tree.sources) {
    const bool sdk = starts_with(source.path, "sdk/include/"), plugin = starts_with(source.path, "plugins/");
    if (!sdk && !plugin) continue;
    for (const Include& include : source.includes) {
      const std::string& path = include.path;
      const bool ours =
          tree.files.count("sdk/include/" + path) != 0 || tree.files.count(folder_of(source.path) + "/" + path) != 0;
      const bool cpp_from_c = sdk && ends_with(source.path, ".h") && path.find('.') == std::string::npos;
      if ((is_standard(path) && !cpp_from_c) || (include.quoted && ours) || (ours && starts_with(path, "reshard/")))
        continue;
      found.push_back(
          {source.path, include.line, "sdk-includes",
           path + (sdk ? " is neither of the standard library nor of sdk/include; the SDK stands on these two alone"
                       : " is neither of the standard library nor of sdk/include; a strategy is built from these two "
                         "alone")});
    }
  }
  return found;
}

std::vector<Finding> check_example_includes(const Tree& tree) {
  std::vector<Finding> found;
  for (const Source& source : tree.sources) {
    if (!starts_with(source.path, "examples/")) continue;
    for (const Include& include : source.includes) {
      const bool own = tree.files.count(folder_of(source.path) + "/" + include.path) != 0;
      const bool reshard = starts_with(include.path, "reshard/");
      const bool is_public = reshard && (tree.files.count("core/include/" + include.path) != 0 ||
                                         tree.files.count("sdk/include/" + include.path) != 0);
      // <…> is of the standard library or a third party's, as long as no folder of core/ has it.
      const bool foreign = !include.quoted && !reshard && tree.files.count("core/" + include.path) == 0;
      if (own || is_public || foreign) continue;
      found.push_back({source.path, include.line, "example-includes",
                       include.path + " is neither public nor the example's own; an example shows what any program can "
                                      "do, so use reshard/… or write it here"});
    }
  }
  return found;
}

std::vector<Finding> check_abi_home(const Tree& tree) {
  std::vector<std::string> abi;
  for (const Source& source : tree.sources)
    if (source.path == "sdk/include/" + std::string(kAbiHeader)) {
      for (const Word& word : words(source))
        if (starts_with(word.text, "reshard_") || starts_with(word.text, "RESHARD_")) abi.push_back(word.text);
      for (const Directive& directive : source.directives)
        if (directive.name == "define" && starts_with(directive.rest, " RESHARD_"))
          abi.push_back(directive.rest.substr(1, directive.rest.find_first_of(" (", 1) - 1));
    }
  std::sort(abi.begin(), abi.end());
  std::vector<Finding> found;
  for (const Source& source : tree.sources) {
    if (!starts_with(source.path, "core/") || starts_with(source.path, "core/plugin/")) continue;
    for (const Include& include : source.includes)
      if (include.path == kAbiHeader || include.path == "reshard/strategy.hpp")
        found.push_back(
            {source.path, include.line, "abi-home", include.path + " is included in core/plugin only; ask its facade"});
    for (const Word& word : words(source))
      if (std::binary_search(abi.begin(), abi.end(), word.text))
        found.push_back({source.path, word.line, "abi-home",
                         word.text + " is of the ABI, which core/plugin alone speaks; ask its facade"});
  }
  return found;
}

std::vector<Finding> check_third_party_homes(const Tree& tree) {
  struct Home {
    std::string_view header;                // what the include begins with
    std::vector<std::string_view> folders;  // where it may stand; a file's path begins with one of them
  };
  static const std::vector<Home> homes = {
      {"toml++/", {"core/config/"}},
      {"toml.hpp", {"core/config/"}},
      {"boost/", {"core/plugin/library."}},
      {"dlfcn.h", {"core/plugin/", "core/comm/processes."}},  // strategies; modules
      {"CLI/", {"core/cli/"}},
      {"mpi.h", {"core/comm/mpi/", "tests/bench/", "tests/comm/hosts_main.cpp"}},
      {"nccl.h", {"core/comm/nccl/"}},
      {"cuda", {"core/device/cuda/", "core/comm/nccl/"}},
      {"cublas", {"core/device/cuda/", "examples/"}},
      {"cblas.h", {"examples/"}},
      {"gtest/", {"tests/"}},
      {"gmock/", {"tests/"}},
      {"benchmark/", {"tests/"}},
  };
  std::vector<Finding> found;
  for (const Source& source : tree.sources) {
    const bool test = starts_with(source.path, "tests/");
    for (const Include& include : source.includes)
      for (const Home& home : homes) {
        if (include.quoted || !starts_with(include.path, home.header)) continue;
        const bool at_home = std::any_of(home.folders.begin(), home.folders.end(),
                                         [&](std::string_view folder) { return starts_with(source.path, folder); });
        if (at_home || (test && home.header != "mpi.h" && home.header != "boost/")) continue;
        std::string places;
        for (const std::string_view folder : home.folders)
          places += (places.empty() ? "" : " and ") + std::string(folder);
        found.push_back({source.path, include.line, "third-party-home",
                         "<" + include.path + "> has its home in " + places + "; use what that folder offers"});
      }
  }
  return found;
}

}  // namespace reshard::style
