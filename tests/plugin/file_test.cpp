// What inspect says of files that are no strategies: each refused with a text of its own, and none of them run. The
// files are copies of a built strategy with the one byte changed that matters.

#include "plugin/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "plugin/strategy.h"
#include "tests/plugin/files.h"

namespace reshard::plugin {
namespace {

using tests::change_dynamic;
using tests::change_segments;
using tests::error_text;
using tests::overlay;
using tests::replace_bytes;
using tests::shipped;

class FileTest : public testing::Test {
 protected:
  std::string good() { return tests::read_bytes(shipped("zero3")); }

  // The error about `bytes` as zero3.so, its folder written as @.
  std::string refusal(const std::string& bytes) { return about(folder_.write("zero3.so", bytes)); }

  std::string about(const std::string& path) {
    std::string text = error_text([&] { inspect(path); });
    for (std::size_t at; (at = text.find(folder_.path())) != std::string::npos;)
      text.replace(at, folder_.path().size(), "@");
    return text;
  }

  tests::TemporaryFolder folder_;
};

TEST_F(FileTest, AGoodFileTellsItsNote) {
  const FileInfo file = inspect(shipped("zero3"));
  EXPECT_EQ(file.name, "zero3");
  EXPECT_EQ(file.version, "1.0.0");
  EXPECT_EQ(file.abi_major, 1);
  EXPECT_EQ(file.abi_minor, 0);
  EXPECT_EQ(file.required_host_minor, 0);
  EXPECT_EQ(file.path, shipped("zero3"));
}

TEST_F(FileTest, WhatIsNoPlainFile) {
  EXPECT_EQ(about(folder_.path("none.so")), "plugin: plugin @/none.so: does not exist (check the path) [file.missing]");
  EXPECT_EQ(about(folder_.path()), "plugin: plugin @: is a folder, not a file (name a .so in it) [file.regular]");
  EXPECT_EQ(refusal(""), "plugin: plugin @/zero3.so: is empty (build it again, or copy it again) [file.empty]");
  const std::string fifo = folder_.path("fifo.so");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(about(fifo),
            "plugin: plugin @/fifo.so: is no regular file (name a file that reshard_add_strategy has built) [file.regular]");
}

TEST_F(FileTest, WhatIsNoSharedObjectOfThisMachine) {
  EXPECT_EQ(refusal("[strategy]\nplugin = \"zero3\"\n"),
            "plugin: plugin @/zero3.so: is not an ELF file (name a file that reshard_add_strategy has built) [elf.type]");
  std::string bytes = good();
  bytes[EI_CLASS] = ELFCLASS32;
  EXPECT_EQ(refusal(bytes),
            "plugin: plugin @/zero3.so: is not a 64-bit little-endian ELF file (name a file that reshard_add_strategy "
            "has built) [elf.type]");
  bytes = good();
  overlay<Elf64_Ehdr>(bytes, 0).e_machine = EM_PPC64;
  EXPECT_TRUE(refusal(bytes).starts_with("plugin: plugin @/zero3.so: is built for POWER; this machine is "));
  EXPECT_TRUE(refusal(bytes).ends_with(" (build it on this machine) [elf.machine]"));
  bytes = good();
  overlay<Elf64_Ehdr>(bytes, 0).e_type = ET_REL;
  EXPECT_EQ(refusal(bytes),
            "plugin: plugin @/zero3.so: is an object file, not a shared object (build it with reshard_add_strategy) [elf.type]");
  EXPECT_EQ(about("/proc/self/exe"),
            "plugin: plugin /proc/self/exe: is a program, not a shared object (build it with reshard_add_strategy) [elf.type]");
}

TEST_F(FileTest, WhatIsNoStrategy) {
  std::string bytes = good();
  replace_bytes(bytes, std::string("RESHARD\0", 8), std::string("RESHARP\0", 8));
  EXPECT_EQ(refusal(bytes),
            "plugin: plugin @/zero3.so: is not a Reshard strategy: it has no RESHARD note (build it with "
            "reshard_add_strategy) [elf.note]");
  bytes = good();
  replace_bytes(bytes, "reshard_plugin_v1", "reshard_plugin_v2");
  EXPECT_EQ(refusal(bytes),
            "plugin: plugin @/zero3.so (zero3 1.0.0): exports no reshard_plugin_v1, only reshard_plugin_v2 (build it "
            "with reshard_add_strategy) [entry.symbol]");
  bytes = good();
  replace_bytes(bytes, "reshard_plugin_v1", "reshard_another_1");
  EXPECT_EQ(refusal(bytes),
            "plugin: plugin @/zero3.so (zero3 1.0.0): exports no reshard_plugin_v1 (build it with "
            "reshard_add_strategy) [entry.symbol]");
  EXPECT_EQ(about(folder_.write("mine.so", good())),
            "plugin: plugin @/mine.so (zero3 1.0.0): is named mine.so, but its note says \"zero3\" (name it zero3.so) [file.name]");
}

TEST_F(FileTest, WhatItMayNotAskOfTheLoader) {
  std::string bytes = good();
  change_segments(bytes, [](Elf64_Phdr& segment) {
    if (segment.p_type == PT_GNU_STACK) segment.p_flags |= PF_X;
  });
  EXPECT_EQ(refusal(bytes),
            "plugin: plugin @/zero3.so (zero3 1.0.0): asks for an executable stack (link it with -z noexecstack) [elf.stack]");
  bytes = good();
  change_segments(bytes, [](Elf64_Phdr& segment) {
    if (segment.p_type == PT_GNU_STACK) segment.p_type = PT_NULL;
  });
  EXPECT_EQ(refusal(bytes),
            "plugin: plugin @/zero3.so (zero3 1.0.0): asks for an executable stack (link it with -z noexecstack) [elf.stack]");
  const auto with_flag = [&](Elf64_Xword flag) {
    std::string changed = good();
    change_dynamic(changed, [&](Elf64_Dyn& entry) {
      if (entry.d_tag == DT_FLAGS) entry.d_un.d_val |= flag;
    });
    return refusal(changed);
  };
  EXPECT_EQ(with_flag(DF_TEXTREL),
            "plugin: plugin @/zero3.so (zero3 1.0.0): has relocations in its code (compile it with -fPIC) [elf.textrel]");
  EXPECT_EQ(with_flag(DF_STATIC_TLS),
            "plugin: plugin @/zero3.so (zero3 1.0.0): needs static thread-local storage (compile it without "
            "-ftls-model=initial-exec) [elf.static-tls]");
}

TEST_F(FileTest, RunPathsAreAbsoluteOrBesideTheFile) {
  // The first library that it needs becomes a run path, and that library's name the path.
  const auto with_run_path = [&](const std::string& path) {
    std::string bytes = good();
    bool changed = false;
    change_dynamic(bytes, [&](Elf64_Dyn& entry) {
      if (entry.d_tag == DT_NEEDED && !changed) entry.d_tag = DT_RUNPATH, changed = true;
    });
    replace_bytes(bytes, "libstdc++.so.6", path);
    return refusal(bytes);
  };
  EXPECT_EQ(with_run_path("plugins/libs/x"),
            "plugin: plugin @/zero3.so (zero3 1.0.0): has the run path \"plugins/libs/x\" (only absolute folders and "
            "$ORIGIN are allowed) [elf.runpath]");
  EXPECT_EQ(with_run_path("/absolute/:abc"),
            "plugin: plugin @/zero3.so (zero3 1.0.0): has the run path \"abc\" (only absolute folders and $ORIGIN are "
            "allowed) [elf.runpath]");
  EXPECT_EQ(with_run_path("/folder/:./x/y"),
            "plugin: plugin @/zero3.so (zero3 1.0.0): has the run path \"./x/y\" (only absolute folders and $ORIGIN "
            "are allowed) [elf.runpath]");
  EXPECT_EQ(with_run_path("$ORIGIN/../lib"), "no error");
}

// A file cut anywhere is refused: no prefix of a strategy passes, and none makes inspect read past the end.
TEST_F(FileTest, NoPrefixOfAStrategyPasses) {
  const std::string bytes = good();
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const std::size_t size = round < 64 ? static_cast<std::size_t>(round) + 1 : random() % bytes.size();
    if (size == 0) continue;
    EXPECT_NE(refusal(bytes.substr(0, size)), "no error") << size;
  }
  EXPECT_EQ(refusal(bytes.substr(0, 3000)).substr(0, 67),
            "plugin: plugin @/zero3.so: is truncated: it has 3000 bytes, its hea");
}

// Damage anywhere in the headers ends in a file that still passes or in one of these words, never in a crash; and
// nothing of the file runs: this one would end the process.
TEST_F(FileTest, DamagedHeadersAreRefusedInKnownWordsOrPass) {
  const std::vector<std::string> known = {
      "is not an ELF file (",
      "is not a 64-bit little-endian ELF file (",
      "is truncated: it has ",
      "is an object file, not a shared object (",
      "is a program, not a shared object (",
      "is built for ",
      "is damaged: odd program headers (",
      "is damaged: it has no dynamic section (",
      "is damaged: its dynamic section points outside the file (",
      "is damaged: its note runs past the segment (",
      "is damaged: a name has no end (",
      "is not a Reshard strategy: it has no RESHARD note (",
      "has the strategy name \"",
      "has no proper version in its note (",
      "needs strategy ABI 1.",
      "is named aborts.so, but its note says \"",
      "exports no reshard_plugin_v1",
      "asks for an executable stack (",
      "has relocations in its code (",
      "needs static thread-local storage (",
      "has the run path \"",
      "depends on ",
  };
  const std::string bytes = tests::read_bytes(tests::broken("aborts"));
  std::size_t headers = sizeof(Elf64_Ehdr);
  std::string copy = bytes;
  change_segments(copy, [&](Elf64_Phdr& segment) {
    headers += sizeof(Elf64_Phdr);
    if (segment.p_type == PT_NOTE) headers = std::max<std::size_t>(headers, segment.p_offset + segment.p_filesz);
  });
  std::mt19937 random(11);
  std::map<std::string, int> seen;  // the beginning of the refusal; "no error" for a file that passes
  for (int round = 0; round < 800; ++round) {
    std::string damaged = bytes;
    const int changes = 1 + static_cast<int>(random() % 4);
    for (int i = 0; i < changes; ++i) damaged[random() % headers] = static_cast<char>(random());
    if (random() % 4 == 0)  // and the dynamic section, wherever it lies
      change_dynamic(copy = bytes,
                     [&](Elf64_Dyn& entry) {
                       if (random() % 8 == 0) entry.d_un.d_val = random();
                       if (random() % 16 == 0) entry.d_tag = random() % 32;
                     }),
          damaged = copy;
    const std::string text = about(folder_.write("aborts.so", damaged));
    if (text == "no error") {
      ++seen[text];
      continue;
    }
    ASSERT_TRUE(text.starts_with("plugin: plugin @/aborts.so")) << text;
    const auto word = std::ranges::find_if(known, [&](const std::string& w) { return text.find(w) != text.npos; });
    ASSERT_NE(word, known.end()) << "round " << round << ": " << text;
    ++seen[*word];
  }
  EXPECT_GT(seen["no error"], 40);
  EXPECT_GE(seen.size(), 14U) << "too few kinds of damage are tried";
}

// The dependency that is missing here is another machine's loader: its name may be asked for, and is never there.
TEST_F(FileTest, AMissingDependencyIsNamed) {
#if defined(__x86_64__)
  const std::string other = "ld-linux-aarch64.so.1";
#else
  const std::string other = "ld-linux-x86-64.so.2";
#endif
  std::string bytes = good();
  const std::string room = "_ITM_deregisterTMCloneTable";  // a name that is optional, and long enough
  replace_bytes(bytes, room, other + std::string(room.size() - other.size(), '\0'));
  Elf64_Addr names = 0;  // where the names lie in the file, and in the first segment
  change_dynamic(bytes, [&](Elf64_Dyn& entry) {
    if (entry.d_tag == DT_STRTAB) names = entry.d_un.d_ptr;
  });
  change_dynamic(bytes, [&](Elf64_Dyn& entry) {
    if (entry.d_tag == DT_NEEDED) entry.d_un.d_val = bytes.find(other) - names;
  });
  const std::string path = folder_.write("zero3.so", bytes);
  EXPECT_EQ(error_text([&] { Strategy::load(path); }),
            "plugin: plugin " + path + " (zero3 1.0.0): depends on " + other +
                ", which is not on this machine (install it, or link it in statically) [load.dependency]");
}

TEST_F(FileTest, AnEntryThatIsNotInitialisedIsRefused) {
  std::string bytes = good();
  replace_bytes(bytes, "RESHARD1", std::string(8, '\0'));
  const std::string path = folder_.write("zero3.so", bytes);
  EXPECT_EQ(error_text([&] { Strategy::load(path); }),
            "plugin: plugin " + path +
                " (zero3 1.0.0): has an entry that is not initialised: magic 0x0, not 0x3144524148534552 (build it "
                "again with this host's headers) [entry.magic]");
}

TEST_F(FileTest, AnEntryMustBeCompleteAndAgreeWithTheNote) {
  std::string bytes = good();
  const std::size_t entry = bytes.find("RESHARD1");
  ASSERT_NE(entry, std::string::npos);
  std::string shorter = bytes;
  overlay<uint32_t>(shorter, entry + 8) = 40;
  std::string path = folder_.write("a/zero3.so", shorter);
  EXPECT_EQ(error_text([&] { Strategy::load(path); }),
            "plugin: plugin " + path +
                " (zero3 1.0.0): has an entry of 40 bytes; ABI 1.0 has 88 (build it again with this host's headers) [entry.size]");
  overlay<uint16_t>(bytes, entry + 14) = 3;
  path = folder_.write("b/zero3.so", bytes);
  EXPECT_EQ(error_text([&] { Strategy::load(path); }),
            "plugin: plugin " + path +
                " (zero3 1.0.0): contradicts itself: its note says ABI 1.0, at least 1.0; its entry 1.3, at least 1.0 "
                "(build it again with this host's headers) [entry.versions]");
}

// Where a job names the file, the place leads and the file becomes the subject, whoever refuses it.
TEST_F(FileTest, ThePlaceThatNamesTheFileLeads) {
  const auto at_place = [](const std::string& path) {
    return error_text([&] { Strategy::load(path, {}, "x.toml:5:1"); });
  };
  const std::string text = folder_.write("text.so", "no strategy");
  EXPECT_EQ(at_place(text), "plugin: x.toml:5:1: plugin " + text +
                                " is not an ELF file (name a file that reshard_add_strategy has built) [elf.type]");
  const std::string none = folder_.path("none.so");
  EXPECT_EQ(at_place(none), "plugin: x.toml:5:1: plugin " + none + " does not exist (check the path) [file.missing]");
  std::string bytes = good();
  replace_bytes(bytes, "RESHARD1", std::string(8, '\0'));
  const std::string entry = folder_.write("zero3.so", bytes);
  EXPECT_EQ(at_place(entry), "plugin: x.toml:5:1: plugin " + entry +
                                 " (zero3 1.0.0) has an entry that is not initialised: magic 0x0, not "
                                 "0x3144524148534552 (build it again with this host's headers) [entry.magic]");
  EXPECT_EQ(at_place(shipped("zero3")), "no error");
}

// A note that says no name, or no version.
TEST_F(FileTest, ANoteMustNameAndVersionTheStrategy) {
  std::string bytes = good();
  const std::size_t note = bytes.find(std::string("RESHARD\0", 8)) + 8;
  ASSERT_LT(note, bytes.size());
  const std::size_t name = bytes.find("zero3", note), version = bytes.find("1.0.0", note);
  std::string changed = bytes;
  changed[name] = 'Z';
  EXPECT_EQ(refusal(changed),
            "plugin: plugin @/zero3.so: has the strategy name \"Zero3\" in its note (names match [a-z][a-z0-9_]*) [entry.name]");
  bytes[version] = '\0';
  EXPECT_EQ(refusal(bytes),
            "plugin: plugin @/zero3.so: has no proper version in its note (give it one of 1 to 31 bytes) [entry.version]");
}

// A minor appends members: a plugin built with a later header has larger tables, which are fine.
TEST_F(FileTest, LaterAndLargerTablesAreAccepted) {
  std::string bytes = good();
  const std::size_t entry = bytes.find("RESHARD1");
  overlay<uint32_t>(bytes, entry + 8) = 4096;
  overlay<uint16_t>(bytes, entry + 14) = 9;
  const std::size_t note = bytes.find(std::string("RESHARD\0", 8));
  overlay<uint16_t>(bytes, note + 10) = 9;
  const Strategy strategy = Strategy::load(folder_.write("zero3.so", bytes));
  EXPECT_EQ(strategy.info().abi, "1.9");
  EXPECT_EQ(strategy.info().required_abi, "1.0");
}

}  // namespace
}  // namespace reshard::plugin
