// Strategies beside each other and beside the program that loads them: other C++ runtimes, functions of the same name,
// threads, files that come and go.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

#include "plugin/probe.h"
#include "plugin/strategy.h"
#include "reshard/text.h"
#include "tests/plugin/files.h"

// With default visibility in a program that exports its symbols, this one would win over a plugin's own.
extern "C" uint32_t shared_helper();
extern "C" __attribute__((visibility("default"))) uint32_t shared_helper() {
  return 99;
}

namespace reshard::plugin {
namespace {

using tests::broken;
namespace fs = std::filesystem;

Problem toy() {
  Problem problem;
  problem.ranks = 2;
  for (const char* name : {"root", "h.0"}) {
    ProblemUnit unit;
    unit.name = name, unit.root = problem.units.empty(), unit.parent = unit.root ? -1 : 0, unit.bytes = 64;
    problem.units.push_back(unit);
  }
  return problem;
}

std::string mapped() {
  std::ostringstream text;
  text << std::ifstream("/proc/self/maps").rdbuf();
  return text.str();
}

// Strings and exceptions of another C++ runtime stay behind the C table.
TEST(Neighbours, ACppRuntimeOfAnotherKindIsNobodysBusiness) {
  for (const std::string name : {"old_strings", "own_runtime"}) {
    const Strategy strategy = Strategy::load(broken(name));
    EXPECT_EQ(strategy.info().options.size(), 2U);
    for (const auto& [what, text] : std::vector<std::pair<std::string, std::string>>{
             {"standard", "decide failed: the moon is in the wrong phase"},
             {"odd", "decide failed: an exception that is no std::exception"},
             {"option", "strategy.options." + name + ".what: this word is not liked"}}) {
      OptionValues options;
      options["what"] = {what, "job.toml:1:1"};
      const std::string said = tests::error_text([&] { strategy.create(options).decide(toy()); });
      EXPECT_TRUE(said.ends_with(text)) << said;
    }
  }
}

TEST(Neighbours, AFunctionOfTheSameNameIsEachFilesOwn) {
  const Strategy one = Strategy::load(broken("says_one")), two = Strategy::load(broken("says_two"));
  EXPECT_EQ(one.create({}).decide(toy()).shard_over, 1);
  EXPECT_EQ(two.create({}).decide(toy()).shard_over, 2);
  EXPECT_EQ(shared_helper(), 99U);
}

// A library that is taken out of memory while a thread, a signal handler or a thread's end still leads into it ends the
// process.
TEST(Neighbours, ALibraryStaysWhenItsStrategyIsGone) {
  { const StrategyInstance instance = Strategy::load(broken("talks")).create({}); }
  EXPECT_NE(mapped().find("talks"), std::string::npos) << mapped();
}

// Nobody has to remove a cache after a file was mended.
TEST(Neighbours, AFileThatWasRefusedIsLoadedOnceItIsMended) {
  const tests::TemporaryFolder folder;
  const std::string bytes = tests::read_bytes(tests::shipped("zero3"));
  const std::string file = folder.write("zero3.so", bytes.substr(0, 3000));
  EXPECT_NE(tests::error_text([&] { Strategy::load(file); }).find("[elf.truncated]"), std::string::npos);
  fs::remove(file);
  folder.write("zero3.so", bytes);
  EXPECT_EQ(Strategy::load(file).info().name, "zero3");
}

// A scanner that forks a program with threads can wait for ever for a lock that nobody holds in the child.
TEST(Neighbours, TheChildStartsWhileOtherThreadsAllocate) {
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      while (!done) std::vector<char>(1 + static_cast<std::size_t>(rand()) % 100000);
    });
  for (int i = 0; i < 20; ++i) {
    const ProbeResult result = run_probe(SealedFile("zero3", tests::read_bytes(tests::shipped("zero3"))),
                                         {"load", tests::shipped("zero3")}, ProbeLimits());
    EXPECT_EQ(result.end, ProbeResult::End::completed) << result.text({});
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
}

// README.md has a row for each thing that hurt users of other plugin hosts; what it names is there.
TEST(Neighbours, EveryTestOfTheTableExists) {
  std::set<std::string> known;
  for (const char* folder : {"tests", "sdk/conformance"})
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(RESHARD_SOURCE_DIR) / folder)) {
      if (entry.path().extension() != ".cpp" && entry.path().filename() != "CMakeLists.txt") continue;
      std::ifstream in(entry.path());
      for (std::string line; std::getline(in, line);) {
        for (const char* macro : {"TEST(", "TEST_F(", "TEST_P("})
          if (line.starts_with(macro)) {
            std::string name = line.substr(line.find('(') + 1);
            name = name.substr(0, name.find(')'));
            known.insert(name.replace(name.find(", "), 2, "."));
          }
        if (const std::size_t at = line.find("{\"");
            at != std::string::npos && line.find("Level::") != std::string::npos)
          known.insert(line.substr(at + 2, line.find('"', at + 2) - at - 2));
        if (line.starts_with("package_test(")) known.insert("package." + line.substr(13, line.find(' ') - 13));
      }
    }
  ASSERT_GT(known.size(), 500U);
  std::ifstream in(fs::path(RESHARD_SOURCE_DIR) / "tests/misuse/README.md");
  int rows = 0;
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("| ") || line.starts_with("| what ") || line.starts_with("|---")) continue;
    ++rows;
    const std::string cell = line.substr(line.rfind('|', line.size() - 2));
    int named = 0;
    for (std::size_t at = 0; (at = cell.find('`', at)) != std::string::npos; ++named) {
      const std::size_t end = cell.find('`', at + 1);
      const std::string name = cell.substr(at + 1, end - at - 1);
      EXPECT_TRUE(known.contains(name)) << name;
      at = end + 1;
    }
    EXPECT_GT(named, 0) << line;
  }
  EXPECT_GE(rows, 40);
}

}  // namespace
}  // namespace reshard::plugin
