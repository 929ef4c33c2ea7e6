#include "comm/local/waits.h"

#include <fmt/format.h>

#include <algorithm>

#include "comm/local/rendezvous.h"

namespace reshard::comm {

Waits::Noted::Noted(Waits& waits, int rank, int peer, const device::Counter& counter, uint32_t step, const Call& call)
    : waits_(waits), rank_(rank), peer_(peer), counter_(counter), step_(step), call_(call) {
  const std::lock_guard lock(waits_.mutex_);
  next_ = waits_.first(rank_);
  waits_.first(rank_) = this;
}

Waits::Noted::~Noted() {
  const std::lock_guard lock(waits_.mutex_);
  Noted** link = &waits_.first(rank_);
  while (*link != this) link = &(*link)->next_;
  *link = next_;
}

std::string Waits::Noted::text() const {
  return fmt::format("rank {} waits in {} for rank {}", rank_, comm::text(call_), peer_);
}

std::optional<std::string> Waits::circle(int rank) {
  if (threads_per_rank_ != 1) return std::nullopt;
  const std::lock_guard lock(mutex_);
  std::vector<int> way;
  int at = rank;
  while (std::find(way.begin(), way.end(), at) == way.end()) {
    const Noted* wait = first(at);
    if (wait == nullptr || wait->is_over()) return std::nullopt;
    way.push_back(at);
    at = wait->peer_;
  }
  way.erase(way.begin(), std::find(way.begin(), way.end(), at));
  std::rotate(way.begin(), std::min_element(way.begin(), way.end()), way.end());
  std::string text;
  for (const int one : way) text += (text.empty() ? "" : ", ") + first(one)->text();
  return text;
}

std::string Waits::places_text(int rank) {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (const Noted* wait = first(rank); wait != nullptr; wait = wait->next_) text += "; " + wait->text();
  return text;
}

}  // namespace reshard::comm
