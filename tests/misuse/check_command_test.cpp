// `plugins check` as a person and a CI use it: what is asked for, what is left out and why, the report as text, JSON
// and JUnit's XML, and the exit codes.

#include <filesystem>
#include <string>
#include <vector>

#include "tests/cli/run_app.h"
#include "tests/plugin/files.h"

namespace reshard::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class CheckCommand : public testing::Test {
 protected:
  AppRun run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"plugins", "check"});
    return run_app(program_, arguments);
  }
  json report(std::vector<std::string> arguments, int code = 0) {
    arguments.insert(arguments.end(), {"--json", "-"});
    const AppRun checked = run(arguments);
    EXPECT_EQ(checked.code, code) << checked.err;
    return json::parse(checked.out, nullptr, false);
  }
  // A strategy in a folder of its own, for a check.toml beside it.
  std::string own(const std::string& name = "zero3") {
    const std::string file = folder_.file(name + ".so");
    fs::copy_file(tests::shipped(name), file, fs::copy_options::skip_existing);
    return file;
  }
  static std::vector<std::string> ids(const json& report) {
    std::vector<std::string> ids;
    for (const json& test : report.at("tests")) ids.push_back(test.at("id"));
    return ids;
  }

  Toy program_;
  Folder folder_;
};

TEST_F(CheckCommand, TheTableSaysTheRuleOfEachTest) {
  const AppRun passed = run({own(), "--only", "plan.t*"});
  EXPECT_EQ(passed.code, 0);
  EXPECT_EQ(passed.err, "");
  EXPECT_EQ(passed.out, "plugin " + own() +
                            " (zero3 1.0.0), level strict, seed 1\n\n"
                            "test          verdict  rule\n"
                            "plan.twice    passed   decide answers the same when asked twice\n"
                            "plan.threads  passed   decide answers the same on eight threads at once\n"
                            "\n2 tests: 2 passed\n");
}

TEST_F(CheckCommand, AFailureSaysWhatAndHowToSeeItAgain) {
  const std::string file = tests::broken("takes_turns");
  const AppRun failed = run({file, "--only", "plan.twice", "--seed", "7"});
  EXPECT_EQ(failed.code, 1);
  EXPECT_EQ(failed.out, "plugin " + file +
                            " (takes_turns 1.0.0), level strict, seed 7\n\n"
                            "test        verdict  rule\n"
                            "plan.twice  failed   decide answers the same when asked twice\n"
                            "\nfailed plan.twice: decide answers the same when asked twice\n"
                            "  asked twice it answers plan: - last \"\" and plan: - each \"\"\n"
                            "  again: bin/toy plugins check " +
                            file +
                            " --only plan.twice --seed 7\n"
                            "\n1 test: 1 failed\n");
}

// A path with blanks and quotes comes back from the shell as it was.
TEST_F(CheckCommand, TheCommandOfAFailureIsOneThatAShellTakes) {
  const std::string file = folder_.file("it's here/takes_turns.so");
  fs::create_directories(fs::path(file).parent_path());
  fs::copy_file(tests::broken("takes_turns"), file);
  const json checked = report({file, "--only", "plan.twice"}, 1);
  const std::string folder = fs::path(folder_.file("x")).parent_path().string();
  EXPECT_EQ(checked["tests"][0].at("command"),
            "bin/toy plugins check '" + folder + "/it'\\''s here/takes_turns.so' --only plan.twice --seed 1");
}

TEST_F(CheckCommand, LevelsOnlyAndSkipChooseTheTests) {
  const json quick = report({own(), "--level", "quick"}), full = report({own()});
  const json strict = report({own(), "--level", "strict"});
  EXPECT_EQ(quick.at("level"), "quick");
  EXPECT_EQ(full.at("level"), "full");
  EXPECT_LT(quick["tests"].size(), full["tests"].size());
  EXPECT_LT(full["tests"].size(), strict["tests"].size());
  EXPECT_EQ(strict["tests"].size(), report({"--list"})["tests"].size());
  EXPECT_EQ(ids(report({own(), "--only", "fuzz.*"})).size(), 3U);
  EXPECT_EQ(ids(report({own(), "--only", "plan.t*", "--level", "quick"})), std::vector<std::string>{"plan.twice"});

  const json less = report({own(), "--only", "plan.t*", "--skip", "plan.threads"});
  EXPECT_EQ(less.at("skipped"), 1);
  EXPECT_EQ(less["tests"][1].at("text"), "--skip plan.threads");
}

TEST_F(CheckCommand, ASeedMakesOtherProblemsAndTheSameOnesAgain) {
  const std::string file = tests::broken("thousand_ranks");
  const auto text = [&](const std::string& seed) {
    return report({file, "--only", "fuzz.problems", "--seed", seed}, 1)["tests"][0].at("text").get<std::string>();
  };
  EXPECT_EQ(text("3"), text("3"));
  EXPECT_NE(text("3"), text("4"));
}

TEST_F(CheckCommand, SoManyAtOnceChangeNoVerdict) {
  const std::string file = tests::broken("one_thread");
  json one = report({file, "--jobs", "1"}, 1), many = report({file, "--jobs", "16"}, 1);
  for (json* report : {&one, &many})
    for (json& test : (*report)["tests"]) test.erase("seconds");
  EXPECT_EQ(one, many);
}

TEST_F(CheckCommand, WhatDoesNotApplyIsLeftOutByNameWithTheReason) {
  const std::string file = own();
  folder_.write("check.toml", "[[skip]]\ntest = \"plan.t*\"\nreason = \"asks a clock\"\n");
  const json checked = report({file, "--level", "quick"});
  for (const json& test : checked["tests"])
    if (test.at("id").get<std::string>().starts_with("plan.t")) {
      EXPECT_EQ(test.at("verdict"), "skipped");
      EXPECT_EQ(test.at("text"), "check.toml: asks a clock");
    }
  const std::string at = folder_.file("check.toml");
  const auto error = [&](const std::string& text) {
    folder_.write("check.toml", text);
    const AppRun refused = run({file});
    EXPECT_EQ(refused.code, 2);
    EXPECT_EQ(refused.out, "");
    return refused.err;
  };
  EXPECT_EQ(error("[[skip]]\ntest = \"plan.none\"\nreason = \"r\"\n"),
            "toy: " + at + ":1:1: no test is named plan.none (toy plugins check --list shows them)\n");
  EXPECT_EQ(error("[[skip]]\ntest = \"plan.twice\"\n"),
            "toy: " + at + ":1:1: [[skip]] has no reason (name the test, or a glob, and say why it does not apply)\n");
  EXPECT_EQ(error("[[skip]]\ntest = 3\nreason = \"r\"\n"),
            "toy: " + at + ":2:1: test is no text (write it in quotes)\n");
  EXPECT_EQ(error("[[skip]]\ntests = \"plan.twice\"\n"),
            "toy: " + at + ":2:1: [[skip]] has no tests (it has test and reason)\n");
  EXPECT_EQ(error("level = \"full\"\n"),
            "toy: " + at + ":1:1: check.toml has no level (it has [[skip]] tables, each with test and reason)\n");
}

TEST_F(CheckCommand, WhatCannotBeAskedIsExitCode2) {
  const auto error = [&](std::vector<std::string> arguments) {
    const AppRun refused = run(std::move(arguments));
    EXPECT_EQ(refused.code, 2);
    EXPECT_EQ(refused.out, "");
    return refused.err;
  };
  const std::string line = "toy: command line: ";
  EXPECT_EQ(error({own(), "--only", "plan.none"}),
            line + "no test is named plan.none (toy plugins check --list shows them)\n");
  EXPECT_EQ(error({own(), "--skip", "nothing*"}),
            line + "no test is named nothing* (toy plugins check --list shows them)\n");
  EXPECT_EQ(error({own(), "--only", "fuzz.*", "--level", "quick"}),
            line + "fuzz.* has no test at level quick (leave --level out)\n");
  EXPECT_EQ(error({own(), "--level", "high"}), line + "--level takes quick, full or strict, not \"high\"\n");
  EXPECT_EQ(error({}), line + "no file is named (as in toy plugins check build/acme_mine.so)\n");
}

TEST_F(CheckCommand, WhatCannotBeRunIsExitCode3) {
  const auto error = [&](const std::string& file) {
    const AppRun refused = run({file});
    EXPECT_EQ(refused.code, 3);
    EXPECT_EQ(refused.out, "");
    return refused.err;
  };
  const std::string none = folder_.file("none.so"), empty = folder_.write("empty.so", "");
  EXPECT_EQ(error(none), "toy: plugin " + none + ": does not exist (check the path) [file.missing]\n");
  EXPECT_EQ(error(folder_.file("")),
            "toy: plugin " + folder_.file("") + ": is no regular file (name a .so) [file.regular]\n");
  EXPECT_EQ(error(empty),
            "toy: plugin " + empty + ": is empty or cannot be read (check its permissions) [file.unreadable]\n");
}

// A file that is no strategy at all is checked, too: its first test fails, the rest have nothing to go by.
TEST_F(CheckCommand, AFileOfAnotherKindFailsItsFirstTest) {
  const json checked = report({folder_.write("text.so", "This is a text.\n")}, 1);
  EXPECT_EQ(checked["tests"][0].at("id"), "file.whole");
  EXPECT_EQ(checked["tests"][0].at("verdict"), "failed");
  EXPECT_EQ(checked["tests"][0].at("text"), "it is not an ELF file (name a file that reshard_add_strategy has built)");
  EXPECT_EQ(checked.at("failed"), 1);
  EXPECT_EQ(checked.at("passed"), 0);
}

TEST_F(CheckCommand, JUnitsXmlHoldsEveryTestAndEscapesWhatItSays) {
  const std::string xml = folder_.file("check.xml");
  const AppRun checked =
      run({tests::broken("takes_turns"), "--only", "plan.t*", "--skip", "plan.threads", "--junit", xml});
  EXPECT_EQ(checked.code, 1);
  std::string text = text_of(xml);
  for (std::size_t at = 0; (at = text.find("time=\"", at)) != std::string::npos; at += 8)
    text.replace(at + 6, text.find('"', at + 6) - at - 6, "T");
  const std::string file = tests::broken("takes_turns");
  EXPECT_EQ(text,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<testsuites tests=\"2\" failures=\"1\" skipped=\"1\" time=\"T\">\n"
            "  <testsuite name=\"takes_turns\" tests=\"2\" failures=\"1\" skipped=\"1\" time=\"T\">\n"
            "    <testcase classname=\"takes_turns.plan\" name=\"twice\" time=\"T\"><failure message=\"asked twice it "
            "answers "
            "plan: - last &quot;&quot; and plan: - each &quot;&quot;\">decide answers the same when asked twice"
            "&#10;again: bin/toy plugins check " +
                file +
                " --only plan.twice --seed 1</failure></testcase>\n"
                "    <testcase classname=\"takes_turns.plan\" name=\"threads\" time=\"T\"><skipped message=\"--skip "
                "plan.threads\"/></testcase>\n"
                "  </testsuite>\n</testsuites>\n");
}

TEST_F(CheckCommand, AReportThatCannotBeWrittenIsNoSuccess) {
  const AppRun junit = run({own(), "--only", "plan.twice", "--junit", folder_.file("none/x.xml")});
  EXPECT_EQ(junit.code, 2);
  EXPECT_EQ(junit.err,
            "toy: " + folder_.file("none/x.xml") +
                ": cannot write the JUnit report: No such file or directory (check the folder of --junit)\n");
  const AppRun itself = run({own(), "--only", "plan.twice", "--junit", own()});
  EXPECT_EQ(itself.code, 2);
  EXPECT_EQ(itself.err,
            "toy: " + own() + ": --junit would replace " + own() + ", which this command reads (name another file)\n");
  const AppRun both = run({own(), "--json", folder_.file("x"), "--junit", folder_.file("x")});
  EXPECT_EQ(both.code, 2);
  EXPECT_EQ(both.err, "toy: command line: --json and --junit both name " + folder_.file("x") + " (name two files)\n");
  const AppRun full = run({own(), "--only", "plan.twice", "--junit", "/dev/full"});
  EXPECT_EQ(full.code, 1);
  EXPECT_EQ(full.err, "toy: /dev/full: cannot write the JUnit report: No space left on device\n");
}

}  // namespace
}  // namespace reshard::cli
