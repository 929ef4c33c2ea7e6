// A check's report as a table, as JSON and as JUnit's XML.

#include <algorithm>

#include <fmt/format.h>

#include "cli/plugins_check.h"

namespace reshard::cli {
namespace {

using Verdict = CheckedTest::Verdict;

std::string marked(Verdict verdict, const Style& style) {
  const char* const word = name(verdict);
  switch (verdict) {
    case Verdict::passed: return word;
    case Verdict::failed: return style.bad(word);
    case Verdict::warned: return style.warn(word);
    case Verdict::skipped: return style.dim(word);
  }
  return word;
}

// Ids, verdicts and rules; the verdicts are coloured once they stand in their column.
std::string table_text(const CheckReport& report, const Style& style) {
  base::TextTable table({"test", "verdict", "rule"});
  std::size_t column = std::string_view("test").size();
  for (const CheckedTest& test : report.tests) {
    table.add({test.id, name(test.verdict), test.sentence});
    column = std::max(column, test.id.size());
  }
  column += 2;
  const std::string plain = table.text();
  std::string text = style.table(base::TextTable({"test" + std::string(column - 4, ' ') + "verdict  rule"}));
  std::size_t at = plain.find('\n') + 1;
  for (const CheckedTest& test : report.tests) {
    const std::size_t end = plain.find('\n', at);
    std::string line = plain.substr(at, end - at);
    line.replace(column, std::string_view(name(test.verdict)).size(), marked(test.verdict, style));
    text += line + "\n";
    at = end + 1;
  }
  return text;
}

std::string skipped_text(const CheckReport& report, const Style& style) {
  base::TextTable table({"skipped", "because"});
  for (const CheckedTest& test : report.tests)
    if (test.verdict == Verdict::skipped) table.add({test.id, test.text});
  return report.count(Verdict::skipped) == 0 ? "" : "\n" + style.table(table);
}

std::string numbers_text(const CheckReport& report) {
  std::string text;
  for (const Verdict verdict : {Verdict::passed, Verdict::failed, Verdict::warned, Verdict::skipped})
    if (const int count = report.count(verdict); count > 0)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, name(verdict));
  const std::size_t all = report.tests.size();
  return fmt::format("{} {}: {}\n", all, all == 1 ? "test" : "tests", text);
}

// Text of an XML document; characters that it cannot hold become '·', as safe_text has them.
std::string xml(const std::string& text) {
  std::string out;
  for (const char c : safe_text(text)) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\n': out += "&#10;"; break;
      default: out += c;
    }
  }
  return out;
}

}  // namespace

std::string tests_text(const std::vector<ConformanceTest>& tests, const Style& style) {
  base::TextTable table({"test", "level", "rule"});
  for (const ConformanceTest& test : tests) table.add({test.id, test.level, test.sentence});
  return style.table(table);
}

std::string check_text(const CheckReport& report, const Style& style) {
  std::string text = fmt::format("plugin {} ({}{}{}), level {}, seed {}\n\n", report.file, report.strategy,
                                 report.version.empty() ? "" : " ", report.version, report.level, report.seed);
  text += table_text(report, style);
  for (const CheckedTest& test : report.tests) {
    if (test.verdict == Verdict::passed || test.verdict == Verdict::skipped) continue;
    text +=
        fmt::format("\n{} {}: {}\n{}", marked(test.verdict, style), test.id, test.sentence, indented(test.text, "  "));
    text += fmt::format("  again: {}\n", test.command);
  }
  text += skipped_text(report, style);
  return text + "\n" + numbers_text(report);
}

Json check_json(const CheckReport& report) {
  Json json{{"file", report.file},     {"strategy", report.strategy}, {"version", report.version},
            {"sha256", report.sha256}, {"level", report.level},       {"seed", report.seed},
            {"tests", Json::array()}};
  for (const CheckedTest& test : report.tests) {
    Json one{{"id", test.id}, {"verdict", name(test.verdict)}, {"rule", test.sentence}, {"seconds", test.seconds}};
    if (!test.text.empty()) one["text"] = test.text;
    one["command"] = test.command;
    json["tests"].push_back(std::move(one));
  }
  for (const Verdict verdict : {Verdict::passed, Verdict::failed, Verdict::warned, Verdict::skipped})
    json[name(verdict)] = report.count(verdict);
  return json;
}

std::string junit_text(const CheckReport& report) {
  double seconds = 0;
  for (const CheckedTest& test : report.tests) seconds += test.seconds;
  const std::string numbers =
      fmt::format("tests=\"{}\" failures=\"{}\" skipped=\"{}\" time=\"{:.3f}\"", report.tests.size(),
                  report.count(Verdict::failed), report.count(Verdict::skipped), seconds);
  std::string text =
      fmt::format("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {}>\n  <testsuite name=\"{}\" {}>\n",
                  numbers, xml(report.strategy), numbers);
  for (const CheckedTest& test : report.tests) {
    const std::size_t dot = test.id.find('.');
    text +=
        fmt::format("    <testcase classname=\"{}.{}\" name=\"{}\" time=\"{:.3f}\">", xml(report.strategy),
                    xml(test.id.substr(0, dot)), xml(test.id.substr(std::min(dot + 1, test.id.size()))), test.seconds);
    const std::string said = xml(test.text);
    if (test.verdict == Verdict::failed)
      text +=
          fmt::format("<failure message=\"{}\">{}</failure>", said, xml(test.sentence + "\nagain: " + test.command));
    if (test.verdict == Verdict::skipped) text += fmt::format("<skipped message=\"{}\"/>", said);
    if (test.verdict == Verdict::warned) text += fmt::format("<system-out>{}</system-out>", said);
    text += "</testcase>\n";
  }
  return text + "  </testsuite>\n</testsuites>\n";
}

}  // namespace reshard::cli
