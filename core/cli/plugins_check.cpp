#include "cli/plugins_check.h"

#include <cstdio>

#include <fmt/format.h>

#include "cli/command.h"
#include "cli/report_file.h"
#include "reshard/error.h"

namespace reshard::cli {
namespace {

constexpr int kCouldNotRun = 3;

Json list_json(const std::vector<ConformanceTest>& tests) {
  Json json{{"tests", Json::array()}};
  for (const ConformanceTest& test : tests)
    json["tests"].push_back({{"id", test.id}, {"level", test.level}, {"rule", test.sentence}});
  return json;
}

}  // namespace

int check_plugin(const CommandLine& line, const Face& face, Output& output) {
  try {
    if (line.check.list) {
      const std::vector<ConformanceTest> tests = conformance_tests();
      write_json(line.json, list_json(tests));
      output.print(tests_text(tests, output.style()));
      return 0;
    }
    const CheckReport report = run_check(line, face, output);
    write_json(line.json, check_json(report));
    write_report(line.check.junit, junit_text(report), kJunit);
    output.print(check_text(report, output.style()));
    return report.count(CheckedTest::Verdict::failed) > 0 ? 1 : 0;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::plugin) throw;
    std::fputs(error_line(face.name, error.what()).c_str(), stderr);
    return kCouldNotRun;
  }
}

}  // namespace reshard::cli
