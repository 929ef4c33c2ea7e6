#pragma once

// The calling thread's floating-point control state: rounding, denormals, exception masks. A plugin that was linked
// with fast-math, or that sets it, would change how the whole run computes. Threads: the state is the calling thread's
// own.

#include <cstdint>
#include <string>

namespace reshard::plugin {

struct FloatingPointState {
  uint64_t control = 0;   // x86-64: MXCSR without its sticky exception flags; AArch64: FPCR
  uint16_t x87 = 0x037f;  // x86-64: the x87 control word

  static FloatingPointState read();
  void write() const;  // leaves the sticky exception flags as they are
  bool operator==(const FloatingPointState&) const = default;
  std::string text() const;  // "MXCSR 0x1f80, x87 0x037f"
};

}  // namespace reshard::plugin
