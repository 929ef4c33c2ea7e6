#include "comm/communicator.h"

#include "base/check.h"

namespace reshard::comm {

const char* name(Dtype dtype) {
  switch (dtype) {
    case Dtype::bytes: return "bytes";
    case Dtype::fp32: return "fp32";
    case Dtype::bf16: return "bf16";
  }
  return "unknown";
}

void Communicator::exchange_checked(const void* mine, size_t bytes, void* all, size_t all_count, const Tag& tag) {
  RESHARD_CHECK(all_count == static_cast<size_t>(size()), "an exchange gives one value per rank");
  exchange(mine, bytes, all, tag);
}

}  // namespace reshard::comm
