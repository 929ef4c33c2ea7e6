#include "cli/command_line.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/help.h"
#include "reshard/error.h"
#include "reshard/text.h"

namespace reshard::cli {
namespace {

[[noreturn]] void fail(const std::string& what, const std::string& remedy) {
  throw Error(ErrorCode::config, what, "command line", remedy);
}

std::optional<int64_t> whole_number(const std::string& option, const std::string& text) {
  if (text.empty()) return std::nullopt;
  int64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc{} || end != text.data() + text.size())
    fail(fmt::format("{} takes a whole number, not \"{}\"", option, text), "");
  return value;
}

std::optional<int> whole_number(const std::string& option, const std::string& text, int least) {
  const std::optional<int64_t> value = whole_number(option, text);
  if (!value) return std::nullopt;
  if (*value < least || *value > std::numeric_limits<int>::max())
    fail(fmt::format("{} = {} is out of range", option, *value), fmt::format("give {} or more", least));
  return static_cast<int>(*value);
}

std::vector<std::string> split(const std::string& option, const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size() && !text.empty();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    if (comma == at)
      fail(fmt::format("{} has an empty name in \"{}\"", option, text), "write the names with one comma between two");
    parts.push_back(text.substr(at, comma - at));
    at = comma + 1;
  }
  return parts;
}

// "--ranks", or "JOB".
std::string shown_name(const CLI::Option& option) {
  return option.get_lnames().empty() ? option.get_name(true) : "--" + option.get_lnames().front();
}

// One command's parser, what its options write into, and which command it is.
struct Parser {
  CLI::App* app = nullptr;
  Command command = Command::none;
};

// Texts that are checked and converted after the parser has run.
struct Raw {
  std::string strategy, ranks, steps, reshard, strategies, blocks, block_steps, seed, jobs, timeout;
};

// CLI11 hands an option that takes a list every following word; ours take one word each time they are given.
CLI::Option* each(CLI::Option* option) {
  return option->allow_extra_args(false);
}

class CommandLineParser {
 public:
  explicit CommandLineParser(const Face& face) : face_(face), app_(face.summary, face.name) {
    app_.set_help_flag("-h,--help", "show this page");
    app_.add_flag("--version", version_, "show the version");
    app_.allow_extras();
    parsers_.push_back({&app_, Command::none});
    if (face.has_model) {
      add_run(Command::train, "train", "train the model, and show what it cost");
      add_run(Command::explain, "explain", "show the plan, who decided what, and what it will cost; nothing runs");
      add_run(Command::compare, "compare", "let strategies take turns on one training state, or compare two runs");
    }
    add_plugins();
  }

  CommandLine parse(std::vector<std::string> arguments) {
    refuse_values_of_flags(arguments);
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
    try {
      app_.parse(arguments);
    } catch (const CLI::CallForHelp&) {
      return page();
    } catch (const CLI::ParseError& error) {
      fail(sentence(error.what()), fmt::format("see {} --help", command_text()));
    }
    if (version_) {
      line_.help = version_line(face_);
      return line_;
    }
    refuse_unknown();
    finish();
    return line_;
  }

 private:
  void add_run(Command command, const std::string& name, const std::string& summary) {
    CLI::App* app = add(&app_, command, name, summary);
    const bool compare = command == Command::compare;
    auto* files =
        app->add_option("JOB", line_.files, compare ? "a job file, or two finished runs: A.json B.json" : "a job file");
    files->type_name("")->expected(0, 1000);  // how many make sense is checked below
    if (compare || command == Command::explain)
      app->add_option("--strategies", raw_.strategies,
                      compare ? "strategies, or variants of the job; the others are compared with the first"
                              : "predict several side by side: strategies, or variants of the job")
          ->type_name("A,B,…");
    if (compare) {
      app->add_option("--blocks", raw_.blocks, "turns of each strategy (default 4)")->type_name("N");
      app->add_option("--block-steps", raw_.block_steps, "steps of a turn; the first is not timed (default 5)")
          ->type_name("N");
    } else {
      app->add_option("--strategy", raw_.strategy,
                      "another strategy than the job's: a name, a variant of the job, or the path of a .so")
          ->type_name("NAME");
    }
    app->add_option("--ranks", raw_.ranks, "over the job's [mesh] ranks")->type_name("N");
    app->add_flag(
        "--processes", line_.processes,
        command == Command::explain ? "as if the ranks were processes" : "start the ranks as processes, by mpirun");
    app->add_option("--steps", raw_.steps,
                    compare ? "steps of the run, divided among the turns" : "over the job's [train] steps")
        ->type_name("N");
    each(app->add_option("--set", line_.overrides.set, "any key of the job, as in TOML; may be repeated"))
        ->type_name("a.b.c=value");
    each(app->add_option("--unit", line_.overrides.units,
                         "one unit's decision (a name, a glob, or root); may be repeated"))
        ->type_name("NAME:key=value");
    app->add_flag("--reshard-after-forward", raw_.reshard,
                  "free every unit after its forward; =k: shrink it to groups of k ranks")
        ->type_name("[=k]");
    app->add_flag("--no-reshard-after-forward", line_.overrides.no_reshard_after_forward,
                  "keep every unit whole after its forward");
    for (const ProgramFlag& flag : face_.flags)
      app->add_option(flag.name, *flag.target, flag.doc)->type_name(flag.value);
    app->add_flag("--print-job", line_.print_job, "print the resolved job as TOML, and do nothing else");
    add_json(app);
  }

  void add_plugins() {
    CLI::App* plugins = add(&app_, Command::plugins, "plugins",
                            "list strategies, describe or check one, say where they come from, begin a new one");
    plugins->require_subcommand(0, 1);
    CLI::App* list =
        add(plugins, Command::plugins_list, "list", "every strategy that is found, and where; runs none of them");
    add_job(list);
    list->add_flag("--all", line_.all,
                   "shadowed files, too, and which rule names each, its SHA-256 and the hosts it needs");
    add_json(list);
    CLI::App* describe =
        add(plugins, Command::plugins_describe, "describe", "one strategy's summary, version and options");
    describe->add_option("NAME", line_.name, "a strategy's name, or the path of a .so")->type_name("");
    add_json(describe);
    CLI::App* paths = add(plugins, Command::plugins_paths, "paths", "the folders that are searched, in order, and why");
    add_job(paths);
    add_json(paths);
    add_about_one(plugins, Command::plugins_why, "why", "how a name comes to its file, step by step; runs nothing");
    add_about_one(plugins, Command::plugins_pin, "pin", "the lines of a job that allow just these bytes of a strategy");
    CLI::App* check =
        add(plugins, Command::plugins_check, "check", "test a strategy's file against the rules of the SDK");
    check->add_option("FILE", line_.name, "the path of a .so")->type_name("");
    check->add_option("--level", line_.check.level, "quick, full (the default; of --only: strict) or strict")
        ->type_name("quick|full|strict");
    check->add_option("--only", line_.check.only, "the tests of this name, or glob")->type_name("GLOB");
    check->add_option("--skip", line_.check.skip, "all but the tests of this name, or glob")->type_name("GLOB");
    check->add_option("--seed", raw_.seed, "of the random problems (default 1)")->type_name("N");
    check->add_option("--jobs", raw_.jobs, "tests at once (default: one per processor)")->type_name("N");
    check->add_option("--timeout", raw_.timeout, "seconds after which a test is ended (default 20)")->type_name("S");
    add_json(check);
    check->add_option("--junit", line_.check.junit, "write the report as JUnit's XML")->type_name("FILE");
    check->add_flag("--list", line_.check.list, "show every test, its level and its rule; no FILE is needed");
    CLI::App* begin =
        add(plugins, Command::plugins_new, "new", "a folder with all that a strategy of your own begins with");
    begin->add_option("NAME", line_.name, "the strategy's name, which is its file's and the folder's")->type_name("");
    begin->add_option("--lang", line_.language, "c++ (C++17, the default) or c (C11)")->type_name("c++|c");
  }

  void add_job(CLI::App* app) {
    app->add_option("JOB", line_.files, "a job file, whose [plugins] holds")->type_name("")->expected(0, 1000);
  }

  void add_about_one(CLI::App* plugins, Command command, const std::string& name, const std::string& summary) {
    CLI::App* app = add(plugins, command, name, summary);
    app->add_option("NAME", line_.name, "a strategy's name, or the path of a .so")->type_name("");
    add_job(app);
    add_json(app);
  }

  CLI::App* add(CLI::App* parent, Command command, const std::string& name, const std::string& summary) {
    CLI::App* app = parent->add_subcommand(name, summary);
    app->set_help_flag("-h,--help", "show this page");
    app->allow_extras();
    parsers_.push_back({app, command});
    return app;
  }

  void add_json(CLI::App* app) {
    app->add_option("--json", line_.json, "write everything that the tables show as JSON; - = stdout, and no tables")
        ->type_name("FILE");
  }

  // The innermost command that was given.
  const Parser& given() const {
    const Parser* innermost = &parsers_.front();
    for (const Parser& parser : parsers_)
      if (parser.app->parsed()) innermost = &parser;
    return *innermost;
  }

  CommandLine page() {
    const Parser& parser = given();
    line_.command = parser.command;
    line_.help = help_page(parser.command, *parser.app, face_);
    return line_;
  }

  std::string command_text() const {
    const Parser& parser = given();
    switch (parser.command) {
      case Command::none: return face_.name;
      case Command::plugins_list:
      case Command::plugins_new:
      case Command::plugins_paths:
      case Command::plugins_why:
      case Command::plugins_pin:
      case Command::plugins_check:
      case Command::plugins_describe: return face_.name + " plugins " + parser.app->get_name();
      default: return face_.name + " " + parser.app->get_name();
    }
  }

  void refuse_unknown() const {
    for (const Parser& parser : parsers_) {
      const std::vector<std::string> extras = parser.app->remaining(false);
      if (extras.empty()) continue;
      const std::string word = extras.front();
      const bool option = word.size() > 1 && word[0] == '-';
      const auto commands = parser.app->get_subcommands([](const CLI::App*) { return true; });
      if (!option && commands.empty())
        fail(fmt::format("\"{}\" is one argument too many", word), fmt::format("see {} --help", command_text()));
      std::vector<std::string> known;
      if (option) {
        for (const CLI::Option* one : parser.app->get_options())
          if (!one->get_lnames().empty()) known.push_back("--" + one->get_lnames().front());
      } else {
        for (const CLI::App* one : commands) known.push_back(one->get_name());
      }
      const std::string name = option ? word.substr(0, word.find('=')) : word;
      const std::string near = base::nearest(name, known);
      fail(fmt::format("unknown {} {}", option ? "option" : "command", name),
           near.empty() ? fmt::format("see {} --help", command_text()) : fmt::format("did you mean {}?", near));
    }
  }

  void finish() {
    line_.command = given().command;
    if (line_.command == Command::none)
      fail("no command is given",
           face_.has_model ? fmt::format("one of train, explain, compare and plugins; see {} --help", face_.name)
                           : fmt::format("see {} --help", face_.name));
    if (line_.command == Command::plugins)
      fail("no command of plugins is given", fmt::format("list, describe, check, paths, why, pin or new; see {} plugins --help", face_.name));
    const bool about_one = line_.command == Command::plugins_describe || line_.command == Command::plugins_why ||
                           line_.command == Command::plugins_pin;
    if (about_one && line_.name.empty())
      fail("no strategy is named", fmt::format("{} plugins list shows them", face_.name));
    if (line_.command == Command::plugins_new && line_.name.empty())
      fail("no name is given", fmt::format("as in {} plugins new acme_mine", face_.name));
    if (line_.command == Command::plugins_check) finish_check();
    refuse_empty();
    refuse_two_values("--reshard-after-forward");
    if (line_.language != "c++" && line_.language != "c")
      fail(fmt::format("--lang takes c++ or c, not \"{}\"", line_.language), "");
    const std::size_t most = line_.command == Command::compare ? 2 : 1;
    if (line_.files.size() > most)
      fail(fmt::format("\"{}\" is one argument too many", line_.files[most]),
           fmt::format("see {} --help", command_text()));
    if (line_.files.size() == 2) refuse_options_of_a_job();
    if (!raw_.strategy.empty()) line_.overrides.strategy = raw_.strategy;
    line_.overrides.ranks = whole_number("--ranks", raw_.ranks);
    line_.overrides.steps = whole_number("--steps", raw_.steps);
    line_.blocks = whole_number("--blocks", raw_.blocks, 1);
    line_.block_steps = whole_number("--block-steps", raw_.block_steps, 2);
    line_.strategies = split("--strategies", raw_.strategies);
    if (line_.overrides.strategy && !line_.strategies.empty())
      fail("--strategy and --strategies both say what to explain", "give one of them");
    line_.overrides.units_before = units_before();
    // A flag that was given without a value reads "true".
    if (!raw_.reshard.empty()) line_.overrides.reshard_after_forward = raw_.reshard == "true" ? "" : raw_.reshard;
  }

  void finish_check() {
    CheckChoice& check = line_.check;
    if (line_.name.empty() && !check.list)
      fail("no file is named", fmt::format("as in {} plugins check build/acme_mine.so", face_.name));
    if (check.level.empty()) check.level = check.only.empty() ? "full" : "strict";
    if (check.level != "quick" && check.level != "full" && check.level != "strict")
      fail(fmt::format("--level takes quick, full or strict, not \"{}\"", check.level), "");
    const int64_t seed = whole_number("--seed", raw_.seed).value_or(1);
    if (seed < 0) fail(fmt::format("--seed = {} is out of range", seed), "give 0 or more");
    check.seed = static_cast<uint64_t>(seed);
    check.jobs = whole_number("--jobs", raw_.jobs, 1).value_or(0);
    check.timeout = whole_number("--timeout", raw_.timeout, 1).value_or(20);
    if (!check.junit.empty() && check.junit == line_.json)
      fail(fmt::format("--json and --junit both name {}", line_.json), "name two files");
  }

  // How many --unit stand before the last [--no-]reshard-after-forward.
  std::size_t units_before() const {
    std::size_t units = 0, before = 0;
    for (const CLI::Option* option : given().app->parse_order()) {
      units += option->check_lname("unit") ? 1 : 0;
      if (option->check_lname("reshard-after-forward") || option->check_lname("no-reshard-after-forward"))
        before = units;
    }
    return before;
  }

  // A shell variable that is not set: what was meant is not what the job says.
  void refuse_empty() const {
    for (const CLI::Option* option : given().app->get_options())
      for (const std::string& value : option->results())
        if (value.empty()) fail_empty(shown_name(*option));
  }

  // CLI11 takes `--reshard-after-forward=` for the flag without a value, `--print-job=false` for a flag that was not
  // given, and `--no-reshard-after-forward=2` for one that was.
  void refuse_values_of_flags(const std::vector<std::string>& words) const {
    for (const std::string& word : words) {
      const std::string name = word.substr(0, word.find('='));
      if (!name.starts_with('-') || name.size() == word.size()) continue;
      if (name.starts_with("--") && name.size() + 1 == word.size()) fail_empty(name);
      for (const Parser& parser : parsers_) {
        const CLI::Option* option = parser.app->get_option_no_throw(name);
        if (option == nullptr || option->get_expected_max() > 0 || option->get_type_name() == "[=k]") continue;
        fail(fmt::format("{} takes no value, not \"{}\"", name, word.substr(name.size() + 1)), "give it alone");
      }
    }
  }

  [[noreturn]] void fail_empty(const std::string& name) const {
    fail(fmt::format("{} is given an empty value", name), "name a value, or leave it out");
  }

  // Of a flag with a value CLI11 takes the last one.
  void refuse_two_values(const std::string& flag) const {
    const CLI::Option* option = given().app->get_option_no_throw(flag);
    if (option == nullptr) return;
    const auto shown = [](const std::string& value) { return value == "true" ? "no value" : value; };
    for (const std::string& value : option->results())
      if (value != option->results().front())
        fail(fmt::format("{} is given twice: {} and {}", flag, shown(option->results().front()), shown(value)),
             "give it once");
  }

  // Two finished runs are read as they are.
  void refuse_options_of_a_job() const {
    for (const CLI::Option* option : given().app->get_options())
      if (option->count() > 0 && !option->get_positional() && option->get_lnames().front() != "json")
        fail(fmt::format("{} does nothing for two finished runs", shown_name(*option)),
             fmt::format("leave it out; only --json goes with two files, see {} --help", command_text()));
  }

  // CLI11's "--ranks: 1 required N missing" and "--ranks: At Most 1 required but received 2" in our words.
  static std::string sentence(const std::string& text) {
    const std::string option = text.substr(0, text.find(':'));
    if (text.ends_with("missing")) return option + " takes a value, and none is given";
    if (text.find("At Most") != std::string::npos) return option + " is given more than once";
    return text;
  }

  const Face& face_;
  CLI::App app_;
  std::vector<Parser> parsers_;
  CommandLine line_;
  Raw raw_;
  bool version_ = false;
};

}  // namespace

CommandLine parse(const std::vector<std::string>& arguments, const Face& face) {
  return CommandLineParser(face).parse(arguments);
}

}  // namespace reshard::cli
