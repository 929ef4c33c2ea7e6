#include "comm/local/failure.h"

#include <utility>

namespace reshard::comm {

Failure::Failure(int ranks) : left_(std::make_unique<std::atomic<bool>[]>(static_cast<size_t>(ranks))) {}

void Failure::interrupt(Cause cause) noexcept {
  const std::lock_guard lock(mutex_);
  if (is_set()) return;
  interruption_ = std::move(cause);
  state_.fetch_or(kInterrupted, std::memory_order_seq_cst);
}

void Failure::end(Cause cause) noexcept {
  const std::lock_guard lock(mutex_);
  if (is_final()) return;
  final_ = std::move(cause);
  state_.fetch_or(kFinal, std::memory_order_seq_cst);
}

void Failure::raise(std::string where) const {
  const bool interrupted = (state_.load(std::memory_order_seq_cst) & kInterrupted) != 0;
  const Cause& cause = interrupted ? interruption_ : final_;
  throw Error(cause.code, cause.what, std::move(where), cause.remedy);
}

void Failure::raise_final(std::string where) const {
  throw Error(final_.code, final_.what, std::move(where), final_.remedy);
}

}  // namespace reshard::comm
