#include "kernels.h"

namespace gpt {

extern const Kernels kScalar;
#ifdef GPT_X86_KERNELS
extern const Kernels kAvx512, kAvx2;
#endif

int available_kernels(const Kernels* (&tables)[3]) {
  int count = 0;
#ifdef GPT_X86_KERNELS
  if (__builtin_cpu_supports("avx512f")) tables[count++] = &kAvx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) tables[count++] = &kAvx2;
#endif
  tables[count++] = &kScalar;
  return count;
}

const Kernels& kernels() {
  static const Kernels& widest = [&]() -> const Kernels& {
    const Kernels* tables[3] = {};
    available_kernels(tables);
    return *tables[0];
  }();
  return widest;
}

}  // namespace gpt
