#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace reshard::base {

void check_failed(const char* condition, const char* why, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: check failed: %s: %s\n", file, line, condition, why);
  std::abort();
}

}  // namespace reshard::base
