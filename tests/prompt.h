#pragma once

// How long "at once" may take in a test.

#include <chrono>

namespace reshard::tests {

// What must come at once (the promise is a second, and it takes milliseconds) is asserted to come within this: a busy
// machine may hold a thread up for a second or two, while what is ruled out, waiting for a timeout, takes a minute.
inline constexpr std::chrono::seconds kPrompt{8};

}  // namespace reshard::tests
