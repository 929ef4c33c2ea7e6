#pragma once

// What a strategy says, and where it goes. Threads: any.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace reshard::plugin {

enum class LogLevel : uint8_t { trace, debug, info, warn, error };

// Receives one line at a time, without a line end: control characters are escaped and long lines are cut. `strategy` is
// the name in its note. May be called on several threads at once, and must not load or end strategies itself. An empty
// function drops all lines.
using LogFunction = std::function<void(LogLevel level, std::string_view strategy, std::string_view line)>;

// The text as one printable line of at most 8 KiB: control characters as \n, \t, \x1b; cut at a UTF-8 border.
std::string printable(std::string_view text, std::size_t limit = 8192);

}  // namespace reshard::plugin
