#include "kernels_body.h"

namespace gpt {

extern const Kernels kScalar;
constinit const Kernels kScalar = table("scalar");

}  // namespace gpt
