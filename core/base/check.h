#pragma once

// RESHARD_CHECK(condition, "why it must hold"): a programmer's error stops the process with the place and the reason.
// It is on in every build; keep it off the per-element paths.

#include <string_view>

namespace reshard::base {

[[noreturn]] void check_failed(const char* condition, const char* why, const char* file, int line);

// Ends the process at once with exit code 1 and the text on stderr, when threads of it will never end.
[[noreturn]] void end_process(std::string_view text);

}  // namespace reshard::base

#define RESHARD_CHECK(condition, why) \
  (static_cast<bool>(condition) ? void(0) : ::reshard::base::check_failed(#condition, why, __FILE__, __LINE__))
