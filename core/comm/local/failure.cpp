#include "comm/local/failure.h"

#include <utility>

namespace reshard::comm {

Failure::Failure(int ranks) : left_(std::make_unique<std::atomic<bool>[]>(static_cast<size_t>(ranks))) {}

void Failure::set(ErrorCode code, std::string what, std::string remedy) noexcept {
  int expected = kNone;
  if (!state_.compare_exchange_strong(expected, kBeingWritten)) {
    // Another rank's failure is the first one. It is about to be published, and callers rely on is_set() from here on.
    while (!is_set()) {
    }
    return;
  }
  code_ = code;
  what_ = std::move(what);
  remedy_ = std::move(remedy);
  state_.store(kSet, std::memory_order_seq_cst);
}

void Failure::raise(std::string where) const {
  throw Error(code_, what_, std::move(where), remedy_);
}

}  // namespace reshard::comm
