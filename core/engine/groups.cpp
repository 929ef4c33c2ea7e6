#include "engine/groups.h"

namespace reshard::engine {

comm::Communicator& Groups::of(const std::vector<int>& ranks) {
  // Ranks are distinct and rising, so as many as there are means all of them.
  if (static_cast<int>(ranks.size()) == all_.size()) return all_;
  auto& group = made_[ranks];
  if (group == nullptr) group = all_.group(ranks);
  return *group;
}

}  // namespace reshard::engine
