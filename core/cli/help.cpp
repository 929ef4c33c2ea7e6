#include "cli/help.h"

#include <utility>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/output.h"

namespace reshard::cli {
namespace {

using Example = std::pair<std::string, std::string>;  // what is typed after the program, and what it does

std::string option_text(const CLI::Option& option) {
  std::string text;
  for (const std::string& name : option.get_snames()) text += "-" + name + ", ";
  for (const std::string& name : option.get_lnames()) text += "--" + name + ", ";
  text.resize(text.size() - 2);
  const std::string value = option.get_type_name();
  if (value.empty()) return text;
  return text + (value[0] == '[' ? "" : " ") + value;
}

std::string options_text(const CLI::App& app) {
  std::vector<std::vector<std::string>> rows;
  for (const CLI::Option* option : app.get_options())
    if (!option->get_positional()) rows.push_back({option_text(*option), option->get_description()});
  return rows_text(rows, "  ");
}

std::string commands_text(const CLI::App& app) {
  std::vector<std::vector<std::string>> rows;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    rows.push_back({command->get_name(), command->get_description()});
  return rows_text(rows, "  ");
}

// Strategies for the examples: installed ones where there are any.
struct Names {
  std::string one, other, all;
};

Names example_names(const Face& face) {
  const std::vector<std::string> found = face.installed ? face.installed() : std::vector<std::string>();
  if (found.size() < 2) return {"NAME", "OTHER", "NAME,OTHER"};
  std::string all = found[0];
  for (std::size_t i = 1; i < std::min<std::size_t>(3, found.size()); ++i) all += "," + found[i];
  return {found[0], found[1], all};
}

std::vector<Example> examples(Command command, const Face& face) {
  const std::string job = face.default_job.empty() ? "job.toml" : face.default_job;
  const Names names = example_names(face);
  switch (command) {
    case Command::none:
      if (!face.has_model) return {{"plugins list", ""}, {"plugins describe " + names.one, ""}};
      return {{"train " + job, ""},
              {"explain " + job + " --strategy " + names.one, ""},
              {"compare " + job + " --strategies " + names.all, ""},
              {"plugins list", ""}};
    case Command::train:
      return {{"train " + job, "as the job says"},
              {"train " + job + " --strategy " + names.other + " --ranks 4", "another strategy, more ranks"},
              {"train " + job + " --set optimizer.lr=3e-4 --steps 50", "any key of the job"},
              {"train " + job + " --print-job", "every key with its value, commented"},
              {"train " + job + " --json run.json", "numbers for a plot, or for compare"}};
    case Command::explain:
      return {{"explain " + job, "the job's plan"},
              {"explain " + job + " --unit root:after_forward=keep", "what would keeping the root cost?"},
              {"explain " + job + " --no-reshard-after-forward --set memory.budget='\"64 MiB\"'", "would it fit?"},
              {"explain " + job + " --strategies " + names.all, "side by side"}};
    case Command::compare:
      return {{"compare " + job + " --strategies " + names.all, "paired timings, peaks, bits"},
              {"compare " + job + " --strategies " + names.one + "," + names.other + " --blocks 8",
               "more turns, less noise"},
              {"compare a.json b.json", "two finished runs (train --json), unpaired"}};
    case Command::plugins:
    case Command::plugins_list:
      return {{"plugins list", ""},
              {"plugins list " + job + " --all", "with the folders that a job names, and what is shadowed there"}};
    case Command::plugins_describe:
      return {{"plugins describe " + names.one, ""},
              {"plugins describe ./acme_mine.so", "a file that no folder holds"}};
    case Command::plugins_paths: return {{"plugins paths", ""}, {"plugins paths " + job, "with the folders that a job names"}};
    case Command::plugins_why:
      return {{"plugins why " + names.one, ""}, {"plugins why " + names.one + " " + job, "by the rules of a job"}};
    case Command::plugins_pin: return {{"plugins pin " + names.one, "to be added to a job"}};
    case Command::plugins_check:
      return {{"plugins check build/acme_mine.so", ""},
              {"plugins check build/acme_mine.so --level strict --seed 7", "random problems too, and others than seed 1's"},
              {"plugins check build/acme_mine.so --only 'plan.*' --junit plan.xml", "one family, for a CI"},
              {"plugins check --list", "every test and its rule"}};
    case Command::plugins_new: return {{"plugins new acme_mine", "in C++"}, {"plugins new acme_mine --lang c", "in C"}};
  }
  return {};
}

std::string usage(Command command, const Face& face) {
  switch (command) {
    case Command::none: return "COMMAND [options]";
    case Command::train: return "train [JOB] [options]";
    case Command::explain: return "explain [JOB] [options]";
    case Command::compare:
      return fmt::format("compare [JOB] --strategies A,B[,…] [options]\n       {} compare A.json B.json", face.typed);
    case Command::plugins: return "plugins COMMAND";
    case Command::plugins_list: return "plugins list [JOB] [options]";
    case Command::plugins_describe: return "plugins describe NAME [options]";
    case Command::plugins_paths: return "plugins paths [JOB] [options]";
    case Command::plugins_why: return "plugins why NAME [JOB] [options]";
    case Command::plugins_pin: return "plugins pin NAME [JOB] [options]";
    case Command::plugins_check: return "plugins check FILE [options]";
    case Command::plugins_new: return "plugins new NAME [options]";
  }
  return "";
}

std::string note(Command command, const Face& face) {
  const bool job = command == Command::train || command == Command::explain || command == Command::compare;
  if (job && !face.default_job.empty()) return fmt::format("Without JOB it is {}.\n", face.default_job);
  if (command == Command::plugins_new)
    return "The folder NAME is made in the working directory; its README says how to go on.\n";
  if (command == Command::plugins_check)
    return "Each test runs in a process of its own. A file check.toml beside FILE may leave tests out, with the reason:\n"
           "  [[skip]]\n  test = \"plan.ranks\"\n  reason = \"…\"\n"
           "Exit codes: 0 passed; 1 a test failed; 2 the command line or check.toml must be mended; 3 no test could be run.\n";
  if (command == Command::none)
    return fmt::format(
        "{} COMMAND --help shows a command's options.\n"
        "Exit codes: 0 done; 1 the run failed, or its output could not be written; 2 the input must be mended (command "
        "line,\n"
        "job, plugin, plan, budget, model or data); 130 stopped by SIGINT or SIGTERM.\n",
        face.name);
  return "";
}

std::string examples_text(Command command, const Face& face) {
  std::string text;
  for (const auto& [typed, does] : examples(command, face)) {
    const std::string line = fmt::format("  {} {}", face.typed, typed);
    text += does.empty() ? line + "\n" : fmt::format("{}\n      {}\n", line, does);
  }
  return text;
}

}  // namespace

std::string help_page(Command command, const CLI::App& app, const Face& face) {
  const bool top = command == Command::none;
  const bool inner = app.get_parent() != nullptr && app.get_parent()->get_name() == "plugins";
  const std::string name = face.name + (top ? "" : inner ? " plugins " + app.get_name() : " " + app.get_name());
  std::string text =
      fmt::format("{}: {}\n\nusage: {} {}\n", name, app.get_description(), face.typed, usage(command, face));
  if (const std::string commands = commands_text(app); !commands.empty()) text += "\ncommands\n" + commands;
  text += "\noptions\n" + options_text(app);
  if (const std::string more = note(command, face); !more.empty()) text += "\n" + more;
  return text + "\nexamples\n" + examples_text(command, face);
}

std::string version_line(const Face& face) {
  const std::string version = fmt::format("reshard {}", RESHARD_VERSION);
  return (face.name == "reshard" ? version : fmt::format("{} ({})", face.name, version)) + "\n";
}

}  // namespace reshard::cli
