// `plugins check` against plugins of which each breaks one rule: the test of that rule fails, and says what is wrong.
// So every conformance test is known to be able to fail. And against those that break none.

#include <sys/stat.h>

#include <cstddef>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <reshard/plugin.h>

#include "reshard/text.h"
#include "tests/cli/run_app.h"
#include "tests/plugin/files.h"

namespace reshard::cli {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;
using tests::change_dynamic;
using tests::change_segments;
using tests::overlay;
using tests::replace_bytes;

#ifdef RESHARD_SANITIZED
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

json check(const std::vector<std::string>& arguments, int code) {
  Toy program;
  std::vector<std::string> words{"plugins", "check", "--json", "-"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  const AppRun run = run_app(program, words);
  EXPECT_EQ(run.code, code) << run.err;
  return json::parse(run.out, nullptr, false);
}

// One rule broken: what its test must say, as a glob.
struct Broken {
  const char* plugin;
  const char* test;
  const char* text;
  const char* verdict = "failed";
};

void PrintTo(const Broken& broken, std::ostream* out) {
  *out << broken.plugin << " " << broken.test;
}

const Broken kBroken[] = {
#include "check_table.inc"
};

class BrokenPlugin : public testing::TestWithParam<Broken> {};

TEST_P(BrokenPlugin, FailsTheTestOfItsRule) {
  const Broken& it = GetParam();
  // A sanitizer's allocator does not count for mallinfo2, and its run-time library ends a process in its own way.
  if (kSanitized && std::string_view(it.text).find("on the heap") != std::string_view::npos) GTEST_SKIP();
  const json report =
      check({tests::broken(it.plugin), "--only", it.test}, std::string_view(it.verdict) == "failed" ? 1 : 0);
  ASSERT_EQ(report.at("tests").size(), 1U);
  const json& test = report["tests"][0];
  EXPECT_EQ(test.at("verdict"), it.verdict);
  const std::string text = test.value("text", "");
  EXPECT_TRUE(base::glob_match(it.text, text)) << text;
}

INSTANTIATE_TEST_SUITE_P(Rules, BrokenPlugin, testing::ValuesIn(kBroken));

// A copy of a right strategy with the few bytes changed that matter.
struct Changed {
  const char* test;
  void (*change)(std::string& bytes);
  const char* text;
};

void change_entry(std::string& bytes, std::size_t member, uint32_t value) {
  const std::size_t entry = bytes.find("RESHARD1");
  ASSERT_NE(entry, std::string::npos);
  overlay<uint32_t>(bytes, entry + member) = value;
}

void set_flag(std::string& bytes, Elf64_Xword flag) {
  change_dynamic(bytes, [&](Elf64_Dyn& entry) {
    if (entry.d_tag == DT_FLAGS) entry.d_un.d_val |= flag;
  });
}

const Changed kChanged[] = {
    {"file.whole", [](std::string& bytes) { bytes.resize(3000); },
     "it is truncated: it has 3000 bytes, its headers speak of * (build it again, or copy it again)"},
    {"file.machine", [](std::string& bytes) { overlay<Elf64_Ehdr>(bytes, 0).e_machine = EM_RISCV; },
     "it is built for RISC-V; this machine is x86-64 (build it on this machine)"},
    {"file.entry", [](std::string& bytes) { replace_bytes(bytes, "reshard_plugin_v1", "reshard_another_1"); },
     "it exports no reshard_plugin_v1 (build it with reshard_add_strategy)"},
    {"file.stack",
     [](std::string& bytes) {
       change_segments(bytes, [](Elf64_Phdr& segment) {
         if (segment.p_type == PT_GNU_STACK) segment.p_flags |= PF_X;
       });
     },
     "it asks for an executable stack (link it with -z noexecstack)"},
    {"file.relocations", [](std::string& bytes) { set_flag(bytes, DF_TEXTREL); },
     "it has relocations in its code (compile it with -fPIC)"},
    {"file.thread_storage", [](std::string& bytes) { set_flag(bytes, DF_STATIC_TLS); },
     "it needs static thread-local storage (compile it without -ftls-model=initial-exec)"},
    {"file.run_path",
     [](std::string& bytes) {
       bool changed = false;
       change_dynamic(bytes, [&](Elf64_Dyn& entry) {
         if (entry.d_tag == DT_NEEDED && !changed) entry.d_tag = DT_RUNPATH, changed = true;
       });
       replace_bytes(bytes, "libstdc++.so.6", "./relative/lib");
     },
     "it has the run path \"./relative/lib\" (only absolute folders and $ORIGIN are allowed)"},
    {"entry.magic", [](std::string& bytes) { replace_bytes(bytes, "RESHARD1", std::string(8, '\0')); },
     "it has an entry that is not initialised: magic 0x0, not 0x3144524148534552 (build it again with this host's "
     "headers)"},
    {"entry.table", [](std::string& bytes) { change_entry(bytes, offsetof(reshard_entry, strategy_count), 0); },
     "it has 0 strategies; a plugin has exactly one (build it again with this host's headers)"},
};

TEST(Check, AChangedFileFailsTheTestOfWhatWasChanged) {
  const tests::TemporaryFolder folder;
  for (const Changed& it : kChanged) {
    std::string bytes = tests::read_bytes(tests::shipped("zero3"));
    it.change(bytes);
    const json report = check({folder.write("zero3.so", bytes), "--only", it.test}, 1);
    EXPECT_EQ(report["tests"][0].at("verdict"), "failed") << it.test;
    const std::string text = report["tests"][0].value("text", "");
    EXPECT_TRUE(base::glob_match(it.text, text)) << it.test << ": " << text;
  }
}

TEST(Check, AFileThatOthersMayWriteIsWarnedOf) {
  const tests::TemporaryFolder folder;
  const std::string file = folder.write("zero3.so", tests::read_bytes(tests::shipped("zero3")));
  ASSERT_EQ(chmod(file.c_str(), 0666), 0);
  const json report = check({file, "--only", "file.trusted"}, 0);
  EXPECT_EQ(report["tests"][0].at("verdict"), "warned");
  EXPECT_EQ(report["tests"][0].value("text", ""), "it may be written by every user (mode 0666) (run `chmod o-w " +
                                                      fs::canonical(file).string() +
                                                      "`, or write trust = \"any\" in [plugins])");
}

TEST(Check, EveryTestCanFail) {
  std::set<std::string> shown{"file.trusted"};
  for (const Broken& it : kBroken) shown.insert(it.test);
  for (const Changed& it : kChanged) shown.insert(it.test);
  const json list = check({"--list"}, 0);
  ASSERT_GT(list.at("tests").size(), 70U);
  for (const json& test : list["tests"]) EXPECT_TRUE(shown.contains(test.at("id"))) << test.at("id");
}

// After a gate that fails nothing else is asked.
TEST(Check, AFailedGateLeavesTheRestOut) {
  const json report = check({tests::broken("hangs"), "--level", "strict", "--timeout", "1"}, 1);
  EXPECT_EQ(report.at("failed"), 1);
  for (const json& test : report["tests"]) {
    if (test.at("id") == "load.binds") {
      EXPECT_EQ(test.at("text"), "it did not end within 1 s");
      EXPECT_EQ(test.at("command"), "bin/toy plugins check " + tests::broken("hangs") + " --only load.binds --seed 1");
    } else if (!test.at("id").get<std::string>().starts_with("file.")) {
      EXPECT_EQ(test.at("text"), "load.binds failed") << test.at("id");
    }
  }
}

class Shipped : public testing::TestWithParam<const char*> {};

TEST_P(Shipped, PassesEveryTestThatItHasSomethingFor) {
  const std::string name = GetParam();
  const json report = check({name == "plain" ? tests::broken(name) : tests::shipped(name), "--level", "strict"}, 0);
  EXPECT_EQ(report.at("warned"), 0);
  EXPECT_GE(report.at("passed"), 60);
  EXPECT_EQ(report.at("strategy"), name);
  for (const json& test : report["tests"]) EXPECT_NE(test.at("verdict"), "failed") << test.dump(2);
}

INSTANTIATE_TEST_SUITE_P(Strategies, Shipped, testing::ValuesIn(tests::kShipped));
INSTANTIATE_TEST_SUITE_P(Misuse, Shipped, testing::Values("plain"));

}  // namespace
}  // namespace reshard::cli
