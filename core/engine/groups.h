#pragma once

// Communicators of one rank: one per distinct set of ranks, made once and kept, however many units use it. The set of
// all ranks gets one of its own too: the communication stream uses these groups, perhaps on a thread of its own, while
// the program's thread exchanges values through the rank's communicator.

#include <map>
#include <memory>
#include <vector>

#include "comm/communicator.h"

namespace reshard::engine {

class Groups {
 public:
  // REQUIRES: `all` outlives this.
  explicit Groups(comm::Communicator& all) : all_(all) {}

  // The group of these ranks (of `all`), made at the first request. Collective among its members at that request, so
  // all of them ask for their groups in the same order.
  comm::Communicator& of(const std::vector<int>& ranks);

 private:
  comm::Communicator& all_;
  std::map<std::vector<int>, std::unique_ptr<comm::Communicator>> made_;
};

}  // namespace reshard::engine
