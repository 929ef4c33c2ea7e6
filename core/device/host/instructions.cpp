#include "device/instructions.h"

namespace reshard::device {

const char* name(Instructions set) {
  switch (set) {
    case Instructions::avx512: return "avx512";
    case Instructions::avx2: return "avx2";
    case Instructions::scalar: break;
  }
  return "scalar";
}

Instructions best_instructions() {
#if defined(__x86_64__)
  // A kernel of AVX2 may use a fused multiply-add where it is exact, so both are asked for.
  if (__builtin_cpu_supports("avx512f")) return Instructions::avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return Instructions::avx2;
#endif
  return Instructions::scalar;
}

std::vector<Instructions> supported_instructions() {
  const Instructions best = best_instructions();
  std::vector<Instructions> sets{Instructions::scalar};
  if (best != Instructions::scalar) sets.push_back(Instructions::avx2);
  if (best == Instructions::avx512) sets.push_back(Instructions::avx512);
  return sets;
}

}  // namespace reshard::device
