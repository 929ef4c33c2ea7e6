// file.*: what the host looks at before any of the plugin's code runs, and what only who ships it would look at.

#include <elf.h>

#include <cstring>
#include <initializer_list>
#include <string_view>

#include <fmt/format.h>

#include "conformance/trial.h"
#include "plugin/file.h"
#include "reshard/error.h"

namespace reshard::conformance {
namespace {

void inspect_for(const Trial& trial, std::initializer_list<std::string_view> ids) {
  try {
    plugin::inspect_bytes(trial.path, trial.bytes);
  } catch (const Error& error) {
    for (const std::string_view id : ids)
      if (error.id() == id) fail(fmt::format("it {} ({})", error.message(), error.remedy()));
    skip(fmt::format("the file is refused before that is looked at: it {}", error.message()));
  }
}

void whole(const Trial& trial) {
  inspect_for(trial, {"elf.type", "elf.truncated", "elf.damaged"});
}
void machine(const Trial& trial) {
  inspect_for(trial, {"elf.machine"});
}
void note(const Trial& trial) {
  inspect_for(trial, {"elf.note", "entry.name", "entry.version"});
}
void version(const Trial& trial) {
  inspect_for(trial, {"abi.major", "abi.host-too-old"});
}
void file_name(const Trial& trial) {
  inspect_for(trial, {"file.name"});
}
void entry(const Trial& trial) {
  inspect_for(trial, {"entry.symbol"});
}
void stack(const Trial& trial) {
  inspect_for(trial, {"elf.stack"});
}
void relocations(const Trial& trial) {
  inspect_for(trial, {"elf.textrel"});
}
void thread_storage(const Trial& trial) {
  inspect_for(trial, {"elf.static-tls"});
}
void run_path(const Trial& trial) {
  inspect_for(trial, {"elf.runpath"});
}
void needed(const Trial& trial) {
  inspect_for(trial, {"elf.needed"});
}

void trusted(const Trial& trial) {
  try {
    plugin::inspect(trial.path);
  } catch (const Error& error) {
    if (error.id().starts_with("trust.")) warn(fmt::format("it {} ({})", error.message(), error.remedy()));
    skip(fmt::format("it {}", error.message()));
  }
}

template <class T>
T at(const std::string& bytes, uint64_t offset) {
  T value{};
  if (offset <= bytes.size() && sizeof value <= bytes.size() - offset)
    std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

// The sections of a file that file.whole has let pass.
std::vector<Elf64_Shdr> sections(const std::string& bytes) {
  const auto header = at<Elf64_Ehdr>(bytes, 0);
  std::vector<Elf64_Shdr> all;
  for (uint64_t i = 0; header.e_shoff != 0 && i < header.e_shnum; ++i)
    all.push_back(at<Elf64_Shdr>(bytes, header.e_shoff + i * header.e_shentsize));
  return all;
}

struct Symbol {
  std::string name;
  unsigned binding = 0;
};

// The symbols that it defines for others.
std::vector<Symbol> exported(const std::string& bytes) {
  const std::vector<Elf64_Shdr> all = sections(bytes);
  std::vector<Symbol> found;
  for (const Elf64_Shdr& section : all) {
    if (section.sh_type != SHT_DYNSYM || section.sh_link >= all.size()) continue;
    for (uint64_t offset = 0; offset + sizeof(Elf64_Sym) <= section.sh_size; offset += sizeof(Elf64_Sym)) {
      const auto symbol = at<Elf64_Sym>(bytes, section.sh_offset + offset);
      const unsigned binding = ELF64_ST_BIND(symbol.st_info);
      if (symbol.st_shndx == SHN_UNDEF || symbol.st_shndx == SHN_ABS || binding == STB_LOCAL) continue;
      const uint64_t text = all[section.sh_link].sh_offset + symbol.st_name;
      if (text < bytes.size()) found.push_back({std::string(bytes.c_str() + text), binding});
    }
  }
  if (all.empty()) skip("the file has no sections");
  return found;
}

void exports(const Trial& trial) {
  std::string names;
  int count = 0;
  for (const Symbol& symbol : exported(trial.bytes))
    if (symbol.name != "reshard_plugin_v1" && ++count <= 5) names += (names.empty() ? "" : ", ") + symbol.name;
  if (count > 0)
    warn(
        fmt::format("it exports {} symbols beside its entry, which could meet another library's of the same name: {}{}",
                    count, names, count > 5 ? ", …" : ""));
}

void unique(const Trial& trial) {
  for (const Symbol& symbol : exported(trial.bytes))
    if (symbol.binding == STB_GNU_UNIQUE)
      warn(fmt::format("{} is shared with every library that has one; compile it with -fno-gnu-unique", symbol.name));
}

void build_id(const Trial& trial) {
  const std::vector<Elf64_Shdr> all = sections(trial.bytes);
  if (all.empty()) skip("the file has no sections");
  for (const Elf64_Shdr& section : all)
    if (section.sh_type == SHT_NOTE && at<Elf64_Nhdr>(trial.bytes, section.sh_offset).n_type == NT_GNU_BUILD_ID &&
        trial.bytes.compare(section.sh_offset + sizeof(Elf64_Nhdr), 4, std::string_view("GNU", 4)) == 0)
      return;
  warn("it has no build id, by which a crash report finds its debug symbols; link it with --build-id");
}

constexpr Test kTests[] = {
    {"file.whole", "the file is a whole shared object", Level::quick, Gate::yes, whole},
    {"file.machine", "the file is built for this machine", Level::quick, Gate::yes, machine},
    {"file.note", "the file's note names a strategy and its version", Level::quick, Gate::yes, note},
    {"file.version", "the file's ABI is one that this host has", Level::quick, Gate::yes, version},
    {"file.name", "the file's stem is the strategy's name", Level::quick, Gate::yes, file_name},
    {"file.entry", "the file exports reshard_plugin_v1", Level::quick, Gate::yes, entry},
    {"file.stack", "the file asks for no executable stack", Level::quick, Gate::yes, stack},
    {"file.relocations", "the file has no relocations in its code", Level::quick, Gate::yes, relocations},
    {"file.thread_storage", "the file needs no static thread-local storage", Level::quick, Gate::yes, thread_storage},
    {"file.run_path", "the file's run paths are absolute or begin at the file", Level::quick, Gate::yes, run_path},
    {"file.needed", "the file needs the C and C++ runtime alone", Level::quick, Gate::yes, needed},
    {"file.trusted", "the file and its folders can be changed by their owner alone", Level::quick, Gate::no, trusted},
    {"file.exports", "the file exports its entry alone", Level::quick, Gate::no, exports},
    {"file.unique", "the file has no symbol that the loader makes unique", Level::full, Gate::no, unique},
    {"file.build_id", "the file has a build id", Level::full, Gate::no, build_id},
};

}  // namespace

std::span<const Test> file_tests() {
  return kTests;
}

}  // namespace reshard::conformance
