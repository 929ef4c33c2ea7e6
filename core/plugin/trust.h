#pragma once

// Whether a file may be loaded, by who can change it and by its pin. A strategy runs with all rights of the user: this
// says whose code it is, never whether it is good code. Threads: no state, any thread.

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "reshard/job.h"

namespace reshard::plugin {

// What is wrong with a file, what to do about it, and the refusal's name.
struct Doubt {
  std::string what, remedy, id;
};

// Who this process runs for: whose files it may load. Asked of the system once per question.
struct Users {
  uid_t self = 0;      // effective
  uid_t program = 0;   // the owner of the running program's file
  bool namespaced = false;  // in a user namespace the system's own files seem to belong to nobody
  uid_t nobody = 65534;
  std::string name;    // of `self`; empty when it has none
  static Users now();
};

// One file or folder as the check sees it; a test makes its own.
struct Owned {
  uid_t owner = 0;
  gid_t group = 0;
  mode_t mode = 0;
  std::string group_name;
};
using Look = std::function<Owned(const std::filesystem::path&)>;
Owned look(const std::filesystem::path& path);  // throws Error(plugin) when it cannot be asked about

// Why somebody who is neither this user, nor root, nor the owner of the running program could change the file: it, or a
// folder above it, belongs to somebody else or may be written by others. A sticky folder may be: others can rename
// nothing in it that is not theirs. A group may write that is root's, or the user's own (it has the user's name).
// `file` must be absolute and without links.
std::optional<Doubt> doubt_of_owner(const std::filesystem::path& file, const Users& users = Users::now(),
                                    const Look& look_at = look);

// Why the bytes of this strategy are not the ones that were pinned. None is missing a pin unless rules.trust is
// "pinned".
std::optional<Doubt> doubt_of_pin(const std::filesystem::path& file, const std::string& sha256,
                                  const Job::Plugins& rules);

}  // namespace reshard::plugin
