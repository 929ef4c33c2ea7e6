#pragma once

// What the user typed, as plain values. Parsing is all that happens here: nothing is read, nothing is run.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/override.h"

namespace reshard::cli {

enum class Command { none, train, explain, compare, plugins, plugins_list, plugins_describe, plugins_check, plugins_new,
                     plugins_paths, plugins_why, plugins_pin };

// An option that the program adds to train, explain and compare.
struct ProgramFlag {
  std::string name, value, doc;  // "--from", "FILE", …
  std::string* target = nullptr;
  std::string key = {};  // of the job, that it replaces: "data.path"; empty: none
};

// Who is asked: it decides which commands there are, and help speaks of it.
struct Face {
  std::string name;         // in errors: "gpt"
  std::string typed;        // argv[0], for examples and hints: "build/bin/gpt"
  std::string summary;      // one line
  std::string default_job;  // empty: none
  bool has_model = true;    // false: plugins is the only command
  std::vector<ProgramFlag> flags;
  // Names of the installed strategies, for examples and hints, which show the first ones. Asked only where one is
  // shown: it reads every plugin there is. Empty: none are known.
  std::function<std::vector<std::string>()> installed;
};

// plugins check.
struct CheckChoice {
  std::string level;       // "quick", "full" or "strict"
  std::string only, skip;  // globs of tests; empty: all, none
  uint64_t seed = 1;
  int jobs = 0;         // 0: as many as there are processors
  int timeout = 20;     // seconds, of one test
  std::string junit;    // a path, empty = none
  bool list = false;
};

struct CommandLine {
  std::vector<std::string> typed;  // all of it, the program's name first
  Command command = Command::none;
  std::vector<std::string> files;  // JOB, of plugins list too; of compare also two finished runs' JSON
  config::Overrides overrides;
  std::vector<std::string> strategies;  // --strategies, split at commas
  std::optional<int> blocks, block_steps;
  bool print_job = false;
  bool processes = false;        // start the ranks as processes
  std::string json;              // --json: a path, "-" = stdout, empty = none
  std::string name;              // plugins describe NAME, plugins check FILE, plugins new NAME
  std::string language = "c++";  // plugins new: "c++" or "c"
  bool all = false;              // plugins list: shadowed files, too, and more of each
  CheckChoice check;
  std::string help;              // not empty: print this and do nothing else (--help, --version)
};

// Throws Error(config) at "command line" for what it does not understand, with the nearest option or command.
CommandLine parse(const std::vector<std::string>& arguments, const Face& face);

}  // namespace reshard::cli
