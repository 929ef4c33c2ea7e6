#pragma once

// Help that teaches: each page lists every option of its command, straight from the parser, and ends in examples.

#include <string>

#include "cli/command_line.h"

namespace CLI {
class App;
}

namespace reshard::cli {

// The page of a command; of the program itself for Command::none. `app` is the parser of that command.
std::string help_page(Command command, const CLI::App& app, const Face& face);

std::string version_line(const Face& face);

}  // namespace reshard::cli
