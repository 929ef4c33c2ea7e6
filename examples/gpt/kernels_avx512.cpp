#include "kernels_body.h"

namespace gpt {

extern const Kernels kAvx512;
constinit const Kernels kAvx512 = table("avx512");

}  // namespace gpt
