#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace reshard::base {

void check_failed(const char* condition, const char* why, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: check failed: %s: %s\n", file, line, condition, why);
  std::abort();
}

void end_process(std::string_view text) {
  std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data());
  std::_Exit(1);
}

}  // namespace reshard::base
