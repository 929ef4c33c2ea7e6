#include "kernels_body.h"

namespace gpt {

extern const Kernels kAvx2;
constinit const Kernels kAvx2 = table("avx2");

}  // namespace gpt
