#pragma once

// What is fuzzed: three readers of bytes that somebody else made. Each takes any bytes and returns; a fault is a crash, a
// hang, a sanitizer's report, or an exception other than reshard::Error, which ends the process. Threads: one.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace reshard::fuzz {

struct Target {
  const char* name;
  void (*run)(std::span<const uint8_t> bytes);
  // Inputs to begin from: good ones, that mutations stay near to.
  std::vector<std::string> (*seeds)();
};

// The inspection of a plugin's file (plugin/file.h), a job file (config/read.h), and the calls that a strategy makes to
// answer (plugin/answers.h).
extern const Target kTargets[3];

}  // namespace reshard::fuzz
