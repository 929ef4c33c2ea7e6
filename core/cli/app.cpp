#include "reshard/app.h"

#include <cstdio>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/command.h"
#include "cli/compare_command.h"
#include "cli/explain.h"
#include "cli/loaded_job.h"
#include "cli/output.h"
#include "cli/plugins.h"
#include "cli/plugins_check.h"
#include "cli/plugins_new.h"
#include "cli/plugins_origin.h"
#include "cli/processes.h"
#include "cli/report_file.h"
#include "cli/train.h"
#include "comm/processes.h"
#include "reshard/error.h"

namespace reshard {
namespace cli {
namespace {

int run_with_model(const CommandLine& line, const Face& face, Program& program, Output& output) {
  const Request request{line, face, program};
  if (line.processes && line.command != Command::explain && !comm::launched()) start_processes(request, output);
  if (line.print_job) {
    const LoadedJob loaded = load_job(request, output);
    if (!output.silent()) write_json(line.json, {{"program", face.name}, {"job", to_json(loaded.job, loaded.tables)}});
    output.print(print_job(loaded.job, loaded.tables));
    return 0;
  }
  switch (line.command) {
    case Command::train: return train(request, output);
    case Command::explain: explain(request, output); return 0;
    case Command::compare: return compare_command(request, output);
    default: return 0;
  }
}

// What the user names on the command line and may be a file that the command reads.
std::vector<std::string> inputs_of(const CommandLine& line, const Face& face) {
  std::vector<std::string> inputs = line.files;
  if (inputs.empty()) inputs.push_back(face.default_job);
  inputs.push_back(line.name);
  inputs.push_back(line.overrides.strategy.value_or(""));
  inputs.insert(inputs.end(), line.strategies.begin(), line.strategies.end());
  for (const ProgramFlag& flag : face.flags) inputs.push_back(*flag.target);
  return inputs;
}

int run_line(const CommandLine& line, const Face& face, Program* program, Output& output) {
  if (!line.help.empty()) {
    output.print(line.help);
    return 0;
  }
  check_writable(line.json, inputs_of(line, face));
  check_writable(line.check.junit, inputs_of(line, face), kJunit);
  switch (line.command) {
    case Command::plugins_list: list_plugins(line, face, output); return 0;
    case Command::plugins_describe: describe_plugin(line, face, output); return 0;
    case Command::plugins_paths: show_plugin_paths(line, output); return 0;
    case Command::plugins_why: return explain_plugin(line, output);
    case Command::plugins_pin: pin_plugin(line, face, output); return 0;
    case Command::plugins_check: return check_plugin(line, face, output);
    case Command::plugins_new: new_plugin(line, face, output); return 0;
    default: return program == nullptr ? 0 : run_with_model(line, face, *program, output);
  }
}

// One line, whatever the text holds.
void print_error(const std::string& program, const std::string& what) {
  const bool colour = shows_colour(stderr);
  const std::string line = error_line(colour ? Style{true}.bad(program) : program, what);
  std::fputs(line.c_str(), stderr);
}

}  // namespace

std::string error_line(const std::string& program, const std::string& what) {
  std::string line = safe_text(what);
  for (char& c : line)
    if (c == '\n') c = ' ';
  return fmt::format("{}: {}\n", program, line);
}

int run_command(int argc, char** argv, Face face, Program* program) {
  std::optional<Output> output;
  // What is wrong before the job is known is said once, too, where mpirun has started this process.
  const auto say = [&](const std::string& what) {
    const std::optional<comm::Launched> launched = comm::launched();
    const bool another = launched && launched->by == "mpirun" && launched->rank > 0;
    if (output ? !output->silent() : !another) print_error(face.name, what);
  };
  try {
    face.typed = argc > 0 ? argv[0] : face.name;
    if (!face.installed) face.installed = usable_strategies;
    check_standard_streams();
    CommandLine line = parse(std::vector<std::string>(argv + std::min(argc, 1), argv + argc), face);
    line.typed.assign(argv, argv + argc);
    output.emplace(line.json);
    const int code = run_line(line, face, program, *output);
    output->finish();
    return code;
  } catch (const Error& error) {
    say(error.what());
    return exit_code(error.code());
  } catch (const std::bad_alloc&) {
    say("out of memory");
  } catch (const std::exception& error) {
    say(error.what());
  } catch (...) {
    say("an exception of an unknown type");
  }
  return 1;
}

}  // namespace cli

int app(int argc, char** argv, Program& program) {
  cli::Face face;
  try {
    face.name = program.name();
    face.summary = program.summary();
    face.default_job = program.default_job();
    for (const Program::Flag& flag : program.flags())
      face.flags.push_back({flag.name, flag.value, flag.doc, flag.target, flag.key});
  } catch (const std::exception& error) {
    std::fputs(cli::error_line(face.name.empty() ? "program" : face.name, error.what()).c_str(), stderr);
    return 1;
  }
  return cli::run_command(argc, argv, std::move(face), &program);
}

}  // namespace reshard
