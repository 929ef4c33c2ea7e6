#include "memory/ledger.h"

#include <numeric>

#include "base/check.h"

namespace reshard::memory {

int64_t Bytes::total() const {
  return std::accumulate(by_category.begin(), by_category.end(), int64_t{0});
}

void Ledger::add(Category category, int64_t bytes) {
  int64_t& live = now_.by_category[static_cast<size_t>(category)];
  live += bytes;
  RESHARD_CHECK(live >= 0, "no more bytes are released than were counted");
  total_ += bytes;
  if (total_ > peak_total_) {
    peak_total_ = total_;
    peak_ = now_;
    peak_moment_ = moment_;
  }
}

void Ledger::reset_peak() {
  peak_ = now_;
  peak_total_ = total_;
  peak_moment_ = moment_;
}

}  // namespace reshard::memory
