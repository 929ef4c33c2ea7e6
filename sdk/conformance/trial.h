#pragma once

// What a conformance test is, and how one ends. Each runs in a process of its own, on its main thread, with one plugin.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace reshard::conformance {

// What a test is about: a plugin's file, and the seed of whatever is random in it.
struct Trial {
  std::string bytes, path;
  uint64_t seed = 1;
};

// How a test ended, thrown by what follows. A test that returns has passed.
struct Verdict {
  enum class Kind : uint8_t { failed, warned, skipped, passed_if_exit_is_clean };
  Kind kind;
  std::string text;
};

[[noreturn]] void fail(std::string text);
[[noreturn]] void warn(std::string text);
[[noreturn]] void skip(std::string reason);  // the plugin has nothing that the rule speaks of

enum class Level : uint8_t { quick, full, strict };
const char* name(Level level);

// A gate: where it fails, nothing can be said of the tests after it.
enum class Gate : bool { no, yes };

struct Test {
  const char* id;        // "plan.twice"
  const char* sentence;  // the rule, without a full stop
  Level level;           // the first level that it belongs to
  Gate gate;
  void (*run)(const Trial& trial);
};

// The families, and all of them in the order in which they are shown.
std::span<const Test> file_tests();
std::span<const Test> entry_tests();
std::span<const Test> load_tests();
std::span<const Test> abi_tests();
std::span<const Test> life_tests();
std::span<const Test> option_tests();
std::span<const Test> plan_tests();
std::span<const Test> repeat_tests();
std::span<const Test> feedback_tests();
std::span<const Test> fuzz_tests();
std::vector<Test> all_tests();

// The probe's answers: a line for each test (id, level, gate or test, sentence; tabs between them), and the verdict of
// one
// ("passed", "failed", "warned", "skipped" or "exit" on the first line, the text on those after it).
std::string list_report();
std::string trial_report(const std::string& id, const Trial& trial);

}  // namespace reshard::conformance
