#include "comm/communicator.h"

#include "base/check.h"

namespace reshard::comm {

void Communicator::exchange_checked(const void* mine, size_t bytes, void* all, size_t all_count, const Tag& tag) {
  RESHARD_CHECK(all_count == static_cast<size_t>(size()), "an exchange gives one value per rank");
  exchange(mine, bytes, all, tag);
}

}  // namespace reshard::comm
