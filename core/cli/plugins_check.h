#pragma once

// `plugins check FILE`: runs the conformance tests, which are compiled into reshard-probe, each in a child process, and
// shows what became of them.

#include <cstdint>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/json.h"
#include "cli/output.h"

namespace reshard::cli {

// A test as the probe lists it.
struct ConformanceTest {
  std::string id, level, sentence;
  bool gate = false;
};

struct CheckedTest {
  enum class Verdict : uint8_t { passed, failed, warned, skipped };
  std::string id, sentence;
  Verdict verdict = Verdict::passed;
  std::string text;     // why it is not passed
  std::string command;  // runs this test alone, in the same way
  double seconds = 0;
};
const char* name(CheckedTest::Verdict verdict);

struct CheckReport {
  std::string file, strategy, version, sha256;  // the version is empty where the file does not say it
  std::string level;
  uint64_t seed = 1;
  std::vector<CheckedTest> tests;
  int count(CheckedTest::Verdict verdict) const;
};

// The exit code: 0 passed, 1 failed, 3 could not run, which is said on stderr. Throws Error(config) for what the user
// can mend: a wrong check.toml, no such test.
int check_plugin(const CommandLine& line, const Face& face, Output& output);

// Runs what `line` asks for. Throws Error(plugin) where that cannot be begun: no such file, no probe.
CheckReport run_check(const CommandLine& line, const Face& face, const Output& output);

// All tests of the probe. Throws Error(plugin).
std::vector<ConformanceTest> conformance_tests();

std::string tests_text(const std::vector<ConformanceTest>& tests, const Style& style);
std::string check_text(const CheckReport& report, const Style& style);
Json check_json(const CheckReport& report);
std::string junit_text(const CheckReport& report);

}  // namespace reshard::cli
