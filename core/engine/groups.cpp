#include "engine/groups.h"

namespace reshard::engine {

comm::Communicator& Groups::of(const std::vector<int>& ranks) {
  auto& group = made_[ranks];
  if (group == nullptr) group = all_.group(ranks);
  return *group;
}

}  // namespace reshard::engine
