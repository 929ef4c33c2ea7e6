// What is typed becomes values, or one clear error; help mentions every option that the parser knows.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cli/command_line.h"
#include "reshard/error.h"

namespace reshard::cli {
namespace {

Face face() {
  Face face;
  face.name = "toy";
  face.typed = "bin/toy";
  face.summary = "learns nothing";
  face.default_job = "toy.toml";
  face.installed = [] { return std::vector<std::string>{"north", "south", "east", "west"}; };
  return face;
}

std::string error_of(const std::vector<std::string>& arguments, const Face& of = face()) {
  try {
    parse(arguments, of);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::config);
    return error.what();
  }
  return "no error";
}

TEST(CommandLine, KeepsWhatWasTyped) {
  const CommandLine line =
      parse({"train", "a.toml", "--set", "x.y=1", "--set", "z=two", "--strategy", "south", "--ranks", "4", "--steps=7",
             "--unit", "h.0:reduce=last", "--unit=root:after_forward=keep", "--json", "-"},
            face());
  EXPECT_EQ(line.command, Command::train);
  EXPECT_EQ(line.files, std::vector<std::string>{"a.toml"});
  EXPECT_EQ(line.overrides.set, (std::vector<std::string>{"x.y=1", "z=two"}));
  EXPECT_EQ(line.overrides.strategy, "south");
  EXPECT_EQ(line.overrides.ranks, 4);
  EXPECT_EQ(line.overrides.steps, 7);
  EXPECT_EQ(line.overrides.units, (std::vector<std::string>{"h.0:reduce=last", "root:after_forward=keep"}));
  EXPECT_EQ(line.json, "-");
  EXPECT_FALSE(line.print_job);
}

TEST(CommandLine, OptionsNeverSwallowTheJob) {
  for (const std::vector<std::string>& before : {std::vector<std::string>{"--set", "a=1"},
                                                 {"--unit", "h:reduce=each"},
                                                 {"--reshard-after-forward"},
                                                 {"--no-reshard-after-forward"}}) {
    std::vector<std::string> arguments{"explain"};
    arguments.insert(arguments.end(), before.begin(), before.end());
    arguments.push_back("job.toml");
    EXPECT_EQ(parse(arguments, face()).files, std::vector<std::string>{"job.toml"}) << before.front();
  }
}

TEST(CommandLine, ReshardAfterForwardHasThreeStates) {
  const auto given = [](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"train"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return parse(arguments, face()).overrides;
  };
  EXPECT_FALSE(given({}).reshard_after_forward.has_value());
  EXPECT_FALSE(given({}).no_reshard_after_forward);
  EXPECT_EQ(given({"--reshard-after-forward"}).reshard_after_forward, "");
  EXPECT_EQ(given({"--reshard-after-forward=2"}).reshard_after_forward, "2");
  EXPECT_FALSE(given({"--reshard-after-forward"}).no_reshard_after_forward);
  EXPECT_TRUE(given({"--no-reshard-after-forward"}).no_reshard_after_forward);
  EXPECT_FALSE(given({"--no-reshard-after-forward"}).reshard_after_forward.has_value());
}

TEST(CommandLine, CompareTakesArmsOrTwoFiles) {
  const CommandLine arms =
      parse({"compare", "--strategies", "north,south,deep", "--blocks", "3", "--block-steps", "4"}, face());
  EXPECT_EQ(arms.command, Command::compare);
  EXPECT_EQ(arms.strategies, (std::vector<std::string>{"north", "south", "deep"}));
  EXPECT_EQ(arms.blocks, 3);
  EXPECT_EQ(arms.block_steps, 4);
  EXPECT_EQ(parse({"compare", "a.json", "b.json"}, face()).files, (std::vector<std::string>{"a.json", "b.json"}));
}

TEST(CommandLine, PluginsHasItsOwnCommands) {
  EXPECT_EQ(parse({"plugins", "list"}, face()).command, Command::plugins_list);
  EXPECT_EQ(parse({"plugins", "new", "acme_mine"}, face()).language, "c++");
  EXPECT_EQ(parse({"plugins", "new", "acme_mine", "--lang", "c"}, face()).language, "c");
  const CommandLine describe = parse({"plugins", "describe", "north", "--json", "x.json"}, face());
  EXPECT_EQ(describe.command, Command::plugins_describe);
  EXPECT_EQ(describe.name, "north");
  EXPECT_EQ(describe.json, "x.json");
}

TEST(CommandLine, AProgramsFlagsReachTheirTargets) {
  Face with_flag = face();
  std::string from;
  with_flag.flags.push_back({"--from", "FILE", "start from these parameters", &from});
  for (const char* command : {"train", "explain", "compare"}) {
    from.clear();
    parse({command, "--from", "p.safetensors"}, with_flag);
    EXPECT_EQ(from, "p.safetensors") << command;
    EXPECT_NE(parse({command, "--help"}, with_flag).help.find("--from FILE"), std::string::npos) << command;
  }
}

TEST(CommandLine, ErrorsSayWhatToType) {
  const std::string line = "command line: ";
  EXPECT_EQ(error_of({}), line + "no command is given (one of train, explain, compare and plugins; see toy --help)");
  EXPECT_EQ(error_of({"trian"}), line + "unknown command trian (did you mean train?)");
  EXPECT_EQ(error_of({"fly"}), line + "unknown command fly (see toy --help)");
  EXPECT_EQ(error_of({"train", "--stpes", "3"}), line + "unknown option --stpes (did you mean --steps?)");
  EXPECT_EQ(error_of({"train", "--zzzzzzzz=3"}), line + "unknown option --zzzzzzzz (see toy train --help)");
  EXPECT_EQ(error_of({"train", "--steps", "x"}), line + "--steps takes a whole number, not \"x\"");
  EXPECT_EQ(error_of({"train", "--ranks", "2.5"}), line + "--ranks takes a whole number, not \"2.5\"");
  EXPECT_EQ(error_of({"train", "--steps"}), line + "--steps takes a value, and none is given (see toy train --help)");
  EXPECT_EQ(error_of({"train", "--strategy", "a", "--strategy", "b"}),
            line + "--strategy is given more than once (see toy train --help)");
  EXPECT_EQ(error_of({"train", "--reshard-after-forward=2", "--reshard-after-forward=4"}),
            line + "--reshard-after-forward is given twice: 2 and 4 (give it once)");
  EXPECT_EQ(error_of({"train", "--reshard-after-forward=2", "--reshard-after-forward"}),
            line + "--reshard-after-forward is given twice: 2 and no value (give it once)");
  EXPECT_EQ(parse({"train", "--reshard-after-forward=2", "--reshard-after-forward=2"}, face())
                .overrides.reshard_after_forward,
            "2");
  EXPECT_EQ(error_of({"train", "a.toml", "b.toml"}),
            line + "\"b.toml\" is one argument too many (see toy train --help)");
  EXPECT_EQ(error_of({"compare", "a", "b", "c"}), line + "\"c\" is one argument too many (see toy compare --help)");
  EXPECT_EQ(error_of({"compare", "--blocks", "0"}), line + "--blocks = 0 is out of range (give 1 or more)");
  EXPECT_EQ(error_of({"compare", "--block-steps", "1"}), line + "--block-steps = 1 is out of range (give 2 or more)");
  EXPECT_EQ(error_of({"plugins"}),
            line + "no command of plugins is given (list, describe, check, paths, why, pin or new; see toy plugins --help)");
  EXPECT_EQ(error_of({"plugins", "lsit"}), line + "unknown command lsit (did you mean list?)");
  EXPECT_EQ(error_of({"plugins", "describe"}), line + "no strategy is named (toy plugins list shows them)");
  EXPECT_EQ(error_of({"plugins", "new"}), line + "no name is given (as in toy plugins new acme_mine)");
  EXPECT_EQ(error_of({"plugins", "new", "acme", "--lang", "rust"}), line + "--lang takes c++ or c, not \"rust\"");
  EXPECT_EQ(error_of({"plugins", "list", "x", "y"}),
            line + "\"y\" is one argument too many (see toy plugins list --help)");
  EXPECT_EQ(error_of({"explain", "--strategies", "north,south", "--strategy", "east"}),
            line + "--strategy and --strategies both say what to explain (give one of them)");
  EXPECT_EQ(error_of({"explain", "--strategies", "north,"}),
            line + "--strategies has an empty name in \"north,\" (write the names with one comma between two)");
  Face tool = face();
  tool.name = "reshard";
  tool.has_model = false;
  EXPECT_EQ(error_of({"train"}, tool), line + "unknown command train (see reshard --help)");
  EXPECT_EQ(error_of({}, tool), line + "no command is given (see reshard --help)");
}

// A shell variable that is not set leaves an empty word. It is not as if nothing had been typed.
TEST(CommandLine, AnEmptyValueIsAnErrorOfItsOption) {
  for (const char* option : {"--ranks", "--steps", "--strategy", "--set", "--unit", "--json"})
    EXPECT_EQ(error_of({"train", option, ""}),
              std::string("command line: ") + option + " is given an empty value (name a value, or leave it out)");
  for (const char* option : {"--ranks", "--steps", "--strategies", "--blocks", "--block-steps", "--json"})
    EXPECT_EQ(error_of({"compare", option, ""}),
              std::string("command line: ") + option + " is given an empty value (name a value, or leave it out)");
  EXPECT_EQ(error_of({"explain", "--strategies", ""}),
            "command line: --strategies is given an empty value (name a value, or leave it out)");
  EXPECT_EQ(error_of({"train", "--reshard-after-forward="}),
            "command line: --reshard-after-forward is given an empty value (name a value, or leave it out)");
  EXPECT_EQ(error_of({"train", ""}), "command line: JOB is given an empty value (name a value, or leave it out)");
  EXPECT_EQ(error_of({"plugins", "list", "--json", ""}),
            "command line: --json is given an empty value (name a value, or leave it out)");
}

// Neither is a value that nobody reads, nor the flag that was typed as if it had not been.
TEST(CommandLine, AFlagTakesNoValue) {
  for (const char* flag : {"--no-reshard-after-forward", "--print-job", "--processes", "--help", "-h"})
    for (const char* value : {"false", "true", "2"})
      EXPECT_EQ(error_of({"train", std::string(flag) + "=" + value}),
                fmt::format("command line: {} takes no value, not \"{}\" (give it alone)", flag, value));
  EXPECT_EQ(error_of({"--version=1"}), "command line: --version takes no value, not \"1\" (give it alone)");
  EXPECT_EQ(error_of({"plugins", "list", "--all=no"}),
            "command line: --all takes no value, not \"no\" (give it alone)");
  EXPECT_EQ(error_of({"plugins", "check", "x.so", "--list=no"}),
            "command line: --list takes no value, not \"no\" (give it alone)");
  EXPECT_EQ(error_of({"train", "--set=--all=2"}), "no error");
}

// `--unit` and the options for every unit are entries in the order in which they were typed.
TEST(CommandLine, TheOptionsForEveryUnitHaveAPlaceAmongTheUnits) {
  const auto before = [](std::vector<std::string> words) {
    words.insert(words.begin(), "explain");
    return parse(words, face()).overrides.units_before;
  };
  const std::string a = "a*:reduce=last", b = "b*:reduce=last";
  EXPECT_EQ(before({"--unit", a, "--unit", b}), 0U);
  EXPECT_EQ(before({"--no-reshard-after-forward", "--unit", a, "--unit", b}), 0U);
  EXPECT_EQ(before({"--unit", a, "--reshard-after-forward=2", "--unit", b}), 1U);
  EXPECT_EQ(before({"--unit=" + a, "--set", "x=1", "--unit", b, "--no-reshard-after-forward"}), 2U);
  EXPECT_EQ(before({"--reshard-after-forward", "--unit", a, "--reshard-after-forward"}), 1U);
}

TEST(CommandLine, TwoFinishedRunsTakeNoOptionOfAJob) {
  for (const std::vector<std::string>& option : {std::vector<std::string>{"--strategies", "north,south"},
                                                 {"--set", "train.steps=3"},
                                                 {"--unit", "root:reduce=each"},
                                                 {"--ranks", "2"},
                                                 {"--steps", "20"},
                                                 {"--blocks", "2"},
                                                 {"--block-steps", "3"},
                                                 {"--reshard-after-forward"},
                                                 {"--no-reshard-after-forward"},
                                                 {"--print-job"}}) {
    std::vector<std::string> arguments{"compare", "a.json", "b.json"};
    arguments.insert(arguments.end(), option.begin(), option.end());
    EXPECT_EQ(error_of(arguments), "command line: " + option.front() +
                                       " does nothing for two finished runs (leave it out; only --json goes with two "
                                       "files, see toy compare --help)");
  }
  EXPECT_EQ(parse({"compare", "a.json", "b.json", "--json", "c.json"}, face()).json, "c.json");
}

TEST(CommandLine, PluginsListTakesAJob) {
  EXPECT_EQ(parse({"plugins", "list", "a.toml"}, face()).files, std::vector<std::string>{"a.toml"});
}

// Asking which strategies are installed reads every one of them.
TEST(CommandLine, OnlyHelpAsksWhatIsInstalled) {
  int asked = 0;
  Face counting = face();
  counting.installed = [&asked] {
    ++asked;
    return std::vector<std::string>{"north", "south"};
  };
  parse({"--version"}, counting);
  parse({"train", "a.toml", "--strategy", "north"}, counting);
  parse({"plugins", "list"}, counting);
  EXPECT_EQ(asked, 0);
  EXPECT_NE(parse({"--help"}, counting).help.find("--strategies north,south"), std::string::npos);
  EXPECT_EQ(asked, 1);
}

// Every option that some parse accepts stands in the help of its command, with a line of its own.
TEST(CommandLine, HelpMentionsEveryOption) {
  const std::vector<std::string> run{"--ranks N",
                                     "--steps N",
                                     "--set a.b.c=value",
                                     "--unit NAME:key=value",
                                     "--reshard-after-forward[=k]",
                                     "--no-reshard-after-forward",
                                     "--processes",
                                     "--print-job",
                                     "--json FILE",
                                     "-h, --help"};
  const auto expect = [](const std::vector<std::string>& command, std::vector<std::string> options) {
    std::vector<std::string> arguments = command;
    arguments.push_back("--help");
    const std::string help = parse(arguments, face()).help;
    for (const std::string& option : options)
      EXPECT_NE(help.find("\n  " + option), std::string::npos) << option << " in\n" << help;
    EXPECT_NE(help.find("\nexamples\n  bin/toy "), std::string::npos) << help;
    for (std::size_t at = 0, end = 0; at < help.size(); at = end + 1) {
      end = help.find('\n', at);
      EXPECT_LE(end - at, 120U) << help.substr(at, end - at);
    }
  };
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), run.begin(), run.end());
    return more;
  };
  expect({"train"}, with({"--strategy NAME"}));
  expect({"explain"}, with({"--strategy NAME", "--strategies A,B,…"}));
  expect({"compare"}, with({"--strategies A,B,…", "--blocks N", "--block-steps N"}));
  expect({"plugins", "list"}, {"--all", "--json FILE", "-h, --help"});
  expect({"plugins", "describe"}, {"--json FILE", "-h, --help"});
  expect({"plugins", "check"}, {"--level quick|full|strict", "--only GLOB", "--skip GLOB", "--seed N", "--jobs N",
                                "--timeout S", "--json FILE", "--junit FILE", "--list", "-h, --help"});
  expect({"plugins"}, {"list", "describe", "check", "paths", "why", "pin", "new"});
  expect({"plugins", "new"}, {"--lang c++|c", "-h, --help"});
  expect({}, {"train", "explain", "compare", "plugins", "--version", "-h, --help"});
}

TEST(CommandLine, HelpOfTheProgram) {
  EXPECT_EQ(parse({"--help"}, face()).help,
            R"(toy: learns nothing

usage: bin/toy COMMAND [options]

commands
  train    train the model, and show what it cost
  explain  show the plan, who decided what, and what it will cost; nothing runs
  compare  let strategies take turns on one training state, or compare two runs
  plugins  list strategies, describe or check one, say where they come from, begin a new one

options
  -h, --help  show this page
  --version   show the version

toy COMMAND --help shows a command's options.
Exit codes: 0 done; 1 the run failed, or its output could not be written; 2 the input must be mended (command line,
job, plugin, plan, budget, model or data); 130 stopped by SIGINT or SIGTERM.

examples
  bin/toy train toy.toml
  bin/toy explain toy.toml --strategy north
  bin/toy compare toy.toml --strategies north,south,east
  bin/toy plugins list
)");
}

}  // namespace
}  // namespace reshard::cli
