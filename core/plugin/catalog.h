#pragma once

// Finding strategies: which file a name means, and which strategies there are. Nothing of a file is run; names and
// versions come from the note inside it. Threads: no state, any thread.

#include <filesystem>
#include <string>
#include <vector>

#include "reshard/job.h"

namespace reshard::plugin {

// A folder that is searched, and the rule that says so: "[plugins].path", "RESHARD_PLUGIN_PATH", "beside the program",
// "installed". It need not exist.
struct SearchFolder {
  std::filesystem::path path;
  std::string rule;
};

// The folders in the order in which they are searched: those of the job ([plugins].path, absolute), those of the
// environment variable RESHARD_PLUGIN_PATH (absolute, separated by ':'; not read in a setuid program, nor where
// rules.env_path is false), the folder `plugins` beside the program's own folder (that is the build folder, for a program
// in it), the one of installed strategies: of an installed program, those of its own prefix; else of the package that the
// program was built with; else where Reshard was configured to be installed. Throws Error(config) for a path that is not
// absolute.
std::vector<SearchFolder> search_folders(const Job::Plugins& rules = {});

// A file's path as a reader of this folder would type it: relative when it lies below the working directory.
std::string short_path(const std::string& path);

struct Found {
  std::filesystem::path file;  // absolute
  std::string rule;            // which rule found it; "path" when a path was given
};

// The file of a strategy. `plugin` is a name, or a path when it has a '/' or ends in ".so" (relative to `base`, the
// working directory when that is empty). The first folder that has NAME.so wins, whatever is in that file. Throws Error
// (plugin) at `where` that lists the paths tried, and the nearest name there is.
Found find(const std::string& plugin, const std::vector<SearchFolder>& folders, const std::string& where = {},
           const std::filesystem::path& base = {});

struct Listed {
  enum class State { usable, shadowed, refused };
  std::string name;     // the file's stem
  std::string version;  // from the note; empty when refused
  std::string abi;      // that it was built with, "1.0"; empty when refused
  std::string required_abi;  // of the host, at least; empty when refused
  std::string sha256;        // of the file; empty when refused
  std::filesystem::path file;
  std::string rule;
  State state = State::usable;
  std::string reason;  // refused: what is wrong with it; shadowed: the file that wins
};

// One file that the search for a name looks at.
struct SearchStep {
  std::filesystem::path file;
  std::string rule;
  enum class Outcome { absent, taken, refused, shadowed } outcome = Outcome::absent;
  std::string reason;  // taken: version, ABI and hash; refused: why; shadowed: by which file
};

const char* name(SearchStep::Outcome outcome);  // "absent", "taken", "refused", "shadowed"

// How find() comes to its file, step by step, and whether `rules` let it be loaded. A path is one step. Runs nothing.
std::vector<SearchStep> trace(const std::string& plugin, const std::vector<SearchFolder>& folders,
                              const Job::Plugins& rules = {});

// The names that the folders hold a file for, sorted, each once. Looks into no file.
std::vector<std::string> installed_names(const std::vector<SearchFolder>& folders);

const char* name(Listed::State state);  // "usable", "shadowed", "refused"

// Every *.so of the folders, in search order, then by name. `rules`: whose files are usable.
std::vector<Listed> list(const std::vector<SearchFolder>& folders, const Job::Plugins& rules = {});

}  // namespace reshard::plugin
