#include "conformance/trial.h"

#include <exception>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace reshard::conformance {

void fail(std::string text) {
  throw Verdict{Verdict::Kind::failed, std::move(text)};
}

void warn(std::string text) {
  throw Verdict{Verdict::Kind::warned, std::move(text)};
}

void skip(std::string reason) {
  throw Verdict{Verdict::Kind::skipped, std::move(reason)};
}

const char* name(Level level) {
  switch (level) {
    case Level::quick: return "quick";
    case Level::full: return "full";
    case Level::strict: return "strict";
  }
  return "";
}

std::vector<Test> all_tests() {
  std::vector<Test> all;
  for (const auto family : {file_tests(), entry_tests(), load_tests(), abi_tests(), life_tests(), option_tests(),
                            plan_tests(), repeat_tests(), feedback_tests(), fuzz_tests()})
    all.insert(all.end(), family.begin(), family.end());
  return all;
}

std::string list_report() {
  std::string lines;
  for (const Test& test : all_tests())
    lines += fmt::format("{}\t{}\t{}\t{}\n", test.id, name(test.level), test.gate == Gate::yes ? "gate" : "test",
                         test.sentence);
  return lines;
}

std::string trial_report(const std::string& id, const Trial& trial) {
  for (const Test& test : all_tests()) {
    if (test.id != id) continue;
    try {
      test.run(trial);
      return "passed\n";
    } catch (const Verdict& verdict) {
      static constexpr const char* words[] = {"failed", "warned", "skipped", "exit"};
      return fmt::format("{}\n{}", words[static_cast<std::size_t>(verdict.kind)], verdict.text);
    } catch (const std::exception& error) {
      return fmt::format("failed\n{}", error.what());
    }
  }
  return "failed\nthere is no such test";
}

}  // namespace reshard::conformance
