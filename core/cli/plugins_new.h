#pragma once

// `plugins new NAME`: a folder with everything that a strategy of one's own begins with. Its files lie in sdk/template
// and are compiled in.

#include "cli/command_line.h"
#include "cli/output.h"

namespace reshard::cli {

// One file of sdk/template; {{name}}, {{language}} and the like stand in `text` for what the user asked for.
struct TemplateFile {
  const char* name;
  const char* text;
};

// Made by the build from sdk/template. The last one's name is null.
extern const TemplateFile kTemplateFiles[];

// Makes the folder line.name in the working directory, for line.language. Throws Error(config) for a name that no
// strategy can have or that an installed one has, and for a folder that holds something; Error(io) when a file cannot
// be written.
void new_plugin(const CommandLine& line, const Face& face, Output& output);

}  // namespace reshard::cli
