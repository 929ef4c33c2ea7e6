#pragma once

// RESHARD_CHECK(condition, "why it must hold"): a programmer's error stops the process with the place and the reason.
// It is on in every build; keep it off the per-element paths.

namespace reshard::base {

[[noreturn]] void check_failed(const char* condition, const char* why, const char* file, int line);

}  // namespace reshard::base

#define RESHARD_CHECK(condition, why) \
  (static_cast<bool>(condition) ? void(0) : ::reshard::base::check_failed(#condition, why, __FILE__, __LINE__))
