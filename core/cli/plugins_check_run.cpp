// The tests themselves: which, in what order, and what became of each.

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "cli/plugins_check.h"
#include "cli/progress.h"
#include "config/document.h"
#include "plugin/file.h"
#include "plugin/probe.h"
#include "plugin/sha256.h"
#include "reshard/error.h"
#include "reshard/text.h"

namespace reshard::cli {
namespace {

namespace fs = std::filesystem;
using Verdict = CheckedTest::Verdict;

constexpr uintmax_t kLargestFile = uintmax_t{256} << 20;

std::string read_file(const std::string& file) {
  const std::string where = "plugin " + file;
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (!fs::exists(status)) throw Error(ErrorCode::plugin, "does not exist", where, "check the path", "file.missing");
  if (!fs::is_regular_file(status))
    throw Error(ErrorCode::plugin, "is no regular file", where, "name a .so", "file.regular");
  if (fs::file_size(file, error) > kLargestFile)
    throw Error(ErrorCode::plugin, "is larger than 256 MiB", where, "name a strategy", "file.size");
  std::ifstream in(file, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  if (!in || bytes.empty())
    throw Error(ErrorCode::plugin, bytes.empty() ? "is empty or cannot be read" : "cannot be read", where,
                "check its permissions", "file.unreadable");
  return bytes;
}

// What check.toml beside the plugin leaves out.
struct Exception {
  std::string test, reason, where;
};

const std::string& text_of(const config::Entry& entry) {
  const auto* value = std::get_if<OptionValue>(&entry.content);
  const auto* text = value == nullptr ? nullptr : std::get_if<std::string>(&value->value);
  if (text == nullptr || text->empty())
    throw Error(ErrorCode::config, fmt::format("{} is no text", entry.key), entry.where, "write it in quotes");
  return *text;
}

std::vector<Exception> read_exceptions(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return {};
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  std::vector<Exception> all;
  for (const config::Entry& entry : config::parse_document(text, file).entries) {
    const auto* tables = std::get_if<std::vector<config::Block>>(&entry.content);
    if (entry.key != "skip" || tables == nullptr)
      throw Error(ErrorCode::config, fmt::format("{} has no {}", fs::path(file).filename().string(), entry.key),
                  entry.where, "it has [[skip]] tables, each with test and reason");
    for (const config::Block& table : *tables) {
      Exception one{"", "", table.where};
      for (const config::Entry& field : table.entries) {
        if (field.key != "test" && field.key != "reason")
          throw Error(ErrorCode::config, fmt::format("[[skip]] has no {}", field.key), field.where,
                      "it has test and reason");
        (field.key == "test" ? one.test : one.reason) = text_of(field);
      }
      if (one.test.empty() || one.reason.empty())
        throw Error(ErrorCode::config, fmt::format("[[skip]] has no {}", one.test.empty() ? "test" : "reason"),
                    table.where, "name the test, or a glob, and say why it does not apply");
      all.push_back(std::move(one));
    }
  }
  return all;
}

int rank(const std::string& level) {
  return level == "quick" ? 0 : level == "full" ? 1 : 2;
}

// The path as a shell takes it.
std::string quoted(const std::string& path) {
  const auto plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || c >= 0x80 ||
           std::string_view("_./-+,=@:").find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (std::all_of(path.begin(), path.end(), plain)) return path;
  std::string text = "'";
  for (const char c : path) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

// The last lines that the child printed, to go with a crash.
std::string last_words(const std::string& output) {
  const std::string text = safe_text(output.substr(output.size() - std::min<std::size_t>(output.size(), 400)));
  return text.empty() ? "" : fmt::format("; it printed:\n{}", text);
}

void judge(const plugin::ProbeResult& result, const plugin::ProbeLimits& limits, CheckedTest& test) {
  test.seconds = result.seconds;
  if (result.end != plugin::ProbeResult::End::completed) {
    test.verdict = Verdict::failed;
    test.text = "it " + result.text(limits) + last_words(result.output);
    return;
  }
  const std::size_t line = std::min(result.report.find('\n'), result.report.size());
  const std::string word = result.report.substr(0, line);
  test.text = safe_text(result.report.substr(std::min(line + 1, result.report.size())));
  test.verdict = word == "passed" || word == "exit" ? Verdict::passed
                 : word == "warned"                 ? Verdict::warned
                 : word == "skipped"                ? Verdict::skipped
                                                    : Verdict::failed;
  if (word == "exit" && !result.clean) {
    test.verdict = Verdict::failed;
    test.text = "it " + result.exit_text() + " after everything had ended" + last_words(result.output);
  }
}

class Checking {
 public:
  Checking(const CommandLine& line, const Face& face, const Output& output)
      : line_(line),
        face_(face),
        live_(output.text_file(), output.terminal()),
        bytes_(read_file(line.name)),
        path_(fs::canonical(line.name)),
        sealed_(path_.filename().string(), bytes_),
        exceptions_(read_exceptions((path_.parent_path() / "check.toml").string())) {
    limits_.time = std::chrono::seconds(line.check.timeout);
  }

  CheckReport run() {
    describe();
    const std::vector<ConformanceTest> tests = chosen();
    for (const ConformanceTest& test : tests) {
      CheckedTest checked;
      checked.id = test.id, checked.sentence = test.sentence;
      checked.command = fmt::format("{} plugins check {} --only {} --seed {}", face_.typed, quoted(line_.name), test.id,
                                    line_.check.seed);
      report_.tests.push_back(std::move(checked));
    }
    std::string failed_gate;
    std::vector<CheckedTest*> open;
    for (std::size_t i = 0; i < tests.size(); ++i) {
      CheckedTest& test = report_.tests[i];
      if (leave_out(test)) continue;
      if (!failed_gate.empty()) {
        test.verdict = Verdict::skipped;
        test.text = failed_gate + " failed";
      } else if (tests[i].gate) {
        one(test);
        if (test.verdict == Verdict::failed) failed_gate = test.id;
      } else {
        open.push_back(&test);
      }
    }
    if (failed_gate.empty())
      all(open);
    else
      for (CheckedTest* test : open) test->verdict = Verdict::skipped, test->text = failed_gate + " failed";
    return std::move(report_);
  }

 private:
  void describe() {
    report_.file = line_.name, report_.level = line_.check.level, report_.seed = line_.check.seed;
    report_.strategy = path_.stem().string();
    report_.sha256 = plugin::sha256(bytes_);
    try {
      const plugin::FileInfo info = plugin::inspect_bytes(path_, bytes_);
      report_.strategy = info.name, report_.version = info.version;
    } catch (const Error&) {  // the tests say what is wrong with it
    }
  }

  std::vector<ConformanceTest> chosen() const {
    std::vector<ConformanceTest> tests = conformance_tests();
    const auto known = [&](const std::string& glob) {
      return std::any_of(tests.begin(), tests.end(), [&](const auto& test) { return base::glob_match(glob, test.id); });
    };
    for (const std::string& glob : {line_.check.only, line_.check.skip})
      if (!glob.empty() && !known(glob))
        throw Error(ErrorCode::config, fmt::format("no test is named {}", glob), "command line",
                    fmt::format("{} plugins check --list shows them", face_.name));
    for (const Exception& one : exceptions_)
      if (!known(one.test))
        throw Error(ErrorCode::config, fmt::format("no test is named {}", one.test), one.where,
                    fmt::format("{} plugins check --list shows them", face_.name));
    std::erase_if(tests, [&](const ConformanceTest& test) {
      return rank(test.level) > rank(line_.check.level) ||
             (!line_.check.only.empty() && !base::glob_match(line_.check.only, test.id));
    });
    if (tests.empty())
      throw Error(ErrorCode::config, fmt::format("{} has no test at level {}", line_.check.only, line_.check.level),
                  "command line", "leave --level out");
    return tests;
  }

  bool leave_out(CheckedTest& test) const {
    if (!line_.check.skip.empty() && base::glob_match(line_.check.skip, test.id)) {
      test.verdict = Verdict::skipped, test.text = "--skip " + line_.check.skip;
      return true;
    }
    for (const Exception& one : exceptions_)
      if (base::glob_match(one.test, test.id)) {
        test.verdict = Verdict::skipped, test.text = fmt::format("check.toml: {}", safe_text(one.reason));
        return true;
      }
    return false;
  }

  void one(CheckedTest& test) {
    judge(plugin::run_probe(sealed_, {"check", path_.string(), test.id, std::to_string(line_.check.seed)}, limits_),
          limits_, test);
  }

  void all(const std::vector<CheckedTest*>& tests) {
    std::atomic<std::size_t> next{0};
    std::size_t done = 0;
    std::mutex lock;
    std::exception_ptr failure;
    const auto work = [&] {
      for (std::size_t i; (i = next++) < tests.size();) {
        try {
          one(*tests[i]);
        } catch (...) {
          const std::lock_guard guard(lock);
          failure = std::current_exception();
        }
        const std::lock_guard guard(lock);
        live_.show(fmt::format("{} of {} tests: {}", ++done, tests.size(), tests[i]->id));
      }
    };
    std::vector<std::thread> workers;
    const int jobs =
        line_.check.jobs > 0 ? line_.check.jobs : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    for (int i = 1; i < jobs && i < static_cast<int>(tests.size()); ++i) workers.emplace_back(work);
    work();
    for (std::thread& worker : workers) worker.join();
    live_.clear();
    if (failure) std::rethrow_exception(failure);
  }

  const CommandLine& line_;
  const Face& face_;
  LiveLine live_;
  const std::string bytes_;
  const fs::path path_;
  const plugin::SealedFile sealed_;
  const std::vector<Exception> exceptions_;
  plugin::ProbeLimits limits_;
  CheckReport report_;
};

}  // namespace

const char* name(CheckedTest::Verdict verdict) {
  static constexpr const char* words[] = {"passed", "failed", "warned", "skipped"};
  return words[static_cast<std::size_t>(verdict)];
}

int CheckReport::count(CheckedTest::Verdict verdict) const {
  return static_cast<int>(
      std::count_if(tests.begin(), tests.end(), [&](const CheckedTest& test) { return test.verdict == verdict; }));
}

std::vector<ConformanceTest> conformance_tests() {
  const plugin::ProbeLimits limits;
  const plugin::ProbeResult result = plugin::run_probe(plugin::SealedFile("none", std::string("-")), {"list"}, limits);
  std::vector<ConformanceTest> tests;
  const std::string& text = result.report;
  for (std::size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    std::vector<std::string> cells(1);
    for (const char c : text.substr(at, end - at))
      if (c == '\t')
        cells.emplace_back();
      else
        cells.back() += c;
    if (cells.size() == 4) tests.push_back({cells[0], cells[1], cells[3], cells[2] == "gate"});
  }
  if (tests.empty())
    throw Error(ErrorCode::plugin, "does not list the conformance tests: " + result.text(limits),
                plugin::probe_program().string(), "install the reshard-probe of this version", "probe.report");
  return tests;
}

CheckReport run_check(const CommandLine& line, const Face& face, const Output& output) {
  return Checking(line, face, output).run();
}

}  // namespace reshard::cli
