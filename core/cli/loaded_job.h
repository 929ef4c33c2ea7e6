#pragma once

// From what the user typed to a job, and to its model: the first half of every command that needs one.

#include <string>

#include "cli/command_line.h"
#include "cli/output.h"
#include "engine/planning.h"
#include "reshard/app.h"

namespace reshard::cli {

// What every command is given: the user's words, the program, and who it is.
struct Request {
  const CommandLine& line;
  const Face& face;
  Program& program;
};

struct LoadedJob {
  Job job;
  Tables tables;  // the program's own; bound to the program's fields
};

// Reads the job file (JOB, or the program's default) and applies the command line. Of several processes that are ranks
// the first speaks for all: `output` is silenced in the others. Throws Error(config).
LoadedJob load_job(const Request& request, Output& output);

// Whether this process is a rank, and not the first.
bool is_another_rank(const Job& job);

// Checks what every program has in common (a mesh that can run, names that exist, a batch that divides), and asks the
// program for its model. Throws Error.
Model load_model(const Request& request, const LoadedJob& loaded);

// State tensors per parameter of the optimizer that will run; of the program's own where the job says so.
int optimizer_states(const Request& request, const Job& job);

// What the runtime takes: null for the built-in ones. Throws Error(config) when the job asks for the program's and
// there is none.
std::unique_ptr<Optimizer> program_optimizer(Program& program, const Job& job);

}  // namespace reshard::cli
