#pragma once

// From argv to an exit code: parsing, dispatch, and the one place where errors become a line on stderr.

#include "cli/command_line.h"
#include "reshard/app.h"

namespace reshard::cli {

// `program`: null for an executable without a model. An empty `face.installed` looks where jobs look. Never throws.
int run_command(int argc, char** argv, Face face, Program* program);

// "gpt: WHERE: WHAT (REMEDY)".
std::string error_line(const std::string& program, const std::string& what);

}  // namespace reshard::cli
