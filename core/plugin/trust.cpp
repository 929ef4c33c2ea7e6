#include "plugin/trust.h"

#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

#include <fmt/format.h>

#include "plugin/log.h"
#include "reshard/error.h"
#include "reshard/text.h"

namespace reshard::plugin {
namespace {

namespace fs = std::filesystem;

std::string name_of(uid_t user) {
  std::array<char, 4096> buffer;
  passwd entry{};
  passwd* found = nullptr;
  if (getpwuid_r(user, &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr) return {};
  return entry.pw_name;
}

std::string name_of_group(gid_t group) {
  std::array<char, 4096> buffer;
  ::group entry{};
  ::group* found = nullptr;
  if (getgrgid_r(group, &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr) return {};
  return entry.gr_name;
}

std::string words(uid_t user) {
  const std::string name = name_of(user);
  return name.empty() ? fmt::format("user {}", user) : fmt::format("user {} ({})", printable(name), user);
}

// In the first user namespace every id stands for itself.
bool ids_are_mapped() {
  std::ifstream in("/proc/self/uid_map");
  uint64_t inside = 0, outside = 0, count = 0;
  return (in >> inside >> outside >> count) && (inside != 0 || outside != 0 || count < 0xffffffffu);
}

uid_t unmapped_user() {
  std::ifstream in("/proc/sys/kernel/overflowuid");
  uid_t user = 65534;
  in >> user;
  return user;
}

constexpr const char* kTrustAny = "write trust = \"any\" in [plugins]";

std::optional<Doubt> doubt_of_one(const fs::path& path, bool is_file, const Owned& one, const Users& users) {
  const std::string what = is_file ? "" : fmt::format("lies below {}, which ", path.string());
  const bool system = users.namespaced && one.owner == users.nobody;
  if (one.owner != 0 && one.owner != users.self && one.owner != users.program && !system)
    return Doubt{fmt::format("{}belongs to {}; this is {}", what, words(one.owner), words(users.self)),
                 fmt::format("run `chown {} {}`, or {}", users.self, path.string(), kTrustAny), "trust.owner"};
  const bool sticky = !is_file && (one.mode & S_ISVTX) != 0;
  if (sticky) return std::nullopt;
  if ((one.mode & S_IWOTH) != 0)
    return Doubt{fmt::format("{}may be written by every user (mode {:04o})", what, one.mode & 07777),
                 fmt::format("run `chmod o-w {}`, or {}", path.string(), kTrustAny), "trust.writable"};
  const bool own_group = one.group == 0 || (!users.name.empty() && one.group_name == users.name) || system;
  if ((one.mode & S_IWGRP) != 0 && !own_group)
    return Doubt{fmt::format("{}may be written by the group {} (mode {:04o})", what,
                             one.group_name.empty() ? std::to_string(one.group) : printable(one.group_name),
                             one.mode & 07777),
                 fmt::format("run `chmod g-w {}`, or {}", path.string(), kTrustAny), "trust.writable"};
  return std::nullopt;
}

}  // namespace

Users Users::now() {
  Users users;
  users.self = geteuid();
  users.name = name_of(users.self);
  struct stat program {};
  users.program = stat("/proc/self/exe", &program) == 0 ? program.st_uid : users.self;
  users.namespaced = ids_are_mapped();
  users.nobody = unmapped_user();
  return users;
}

Owned look(const fs::path& path) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0)
    throw Error(ErrorCode::plugin, fmt::format("cannot be looked at: {}", std::strerror(errno)), path.string(),
                "check the permissions of its folders", "trust.owner");
  return {status.st_uid, status.st_gid, status.st_mode, name_of_group(status.st_gid)};
}

std::optional<Doubt> doubt_of_owner(const fs::path& file, const Users& users, const Look& look_at) {
  bool is_file = true;
  for (fs::path at = file;; at = at.parent_path(), is_file = false) {
    if (auto doubt = doubt_of_one(at, is_file, look_at(at), users)) return doubt;
    if (at == at.root_path() || at.empty()) return std::nullopt;
  }
}

std::optional<Doubt> doubt_of_pin(const fs::path& file, const std::string& sha256, const Job::Plugins& rules) {
  std::vector<std::string> allowed;
  std::string where;
  for (const Job::Pin& pin : rules.pins) {
    if (pin.name != file.stem()) continue;
    if (pin.sha256 == sha256) return std::nullopt;
    allowed.push_back(pin.sha256);
    where = pin.where;
  }
  if (!allowed.empty())
    return Doubt{fmt::format("has the sha256 {}, but its pin{} says {}", sha256,
                             where.empty() ? "" : fmt::format(" at {}", where), base::list_text(allowed)),
                 "find out who replaced it; if you did, pin it anew (plugins pin NAME)", "trust.pin"};
  if (rules.trust == "pinned")
    return Doubt{"has no pin, and [plugins] trust = \"pinned\"",
                 fmt::format("add [[plugins.pin]] with name = \"{}\" and sha256 = \"{}\" once you trust it",
                             file.stem().string(), sha256),
                 "trust.no-pin"};
  return std::nullopt;
}

}  // namespace reshard::plugin
