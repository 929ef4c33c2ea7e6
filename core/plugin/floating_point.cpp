#include "plugin/floating_point.h"

#include <fmt/format.h>

namespace reshard::plugin {

#if defined(__x86_64__)

namespace {
constexpr uint32_t kSticky = 0x3f;
}

FloatingPointState FloatingPointState::read() {
  FloatingPointState state;
  uint16_t x87 = 0;
  __asm__ volatile("fnstcw %0" : "=m"(x87));
  state.x87 = x87;
  state.control = __builtin_ia32_stmxcsr() & ~kSticky;
  return state;
}

void FloatingPointState::write() const {
  const uint16_t word = x87;
  __asm__ volatile("fldcw %0" : : "m"(word));
  __builtin_ia32_ldmxcsr(static_cast<uint32_t>(control) | (__builtin_ia32_stmxcsr() & kSticky));
}

std::string FloatingPointState::text() const {
  return fmt::format("MXCSR {:#06x}, x87 {:#06x}", control, x87);
}

#elif defined(__aarch64__)

FloatingPointState FloatingPointState::read() {
  FloatingPointState state;
  __asm__ volatile("mrs %0, fpcr" : "=r"(state.control));
  return state;
}

void FloatingPointState::write() const {
  __asm__ volatile("msr fpcr, %0" : : "r"(control));
}

std::string FloatingPointState::text() const {
  return fmt::format("FPCR {:#010x}", control);
}

#endif

}  // namespace reshard::plugin
