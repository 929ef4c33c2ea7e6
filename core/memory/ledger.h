#pragma once

// Bytes of one rank by category, now and at the peak of their sum, with the moment of the peak.
//
// The ledger only counts. The pool counts its blocks in it at allocation and at release; what a program declares
// (activations) is added by the engine.
//
// Threads: one thread at a time.

#include <array>
#include <cstddef>
#include <cstdint>

#include "reshard/report.h"

namespace reshard::memory {

using Category = MemoryCategory;
inline constexpr int kCategories = kMemoryCategories;

// When something was counted. The ledger keeps it and does not interpret it: `hook` is the engine's own number of a
// hook or op; -1 stands for none.
struct Moment {
  int hook = -1, unit = -1, microbatch = -1;
  bool operator==(const Moment&) const = default;
};

struct Bytes {
  std::array<int64_t, kCategories> by_category{};

  int64_t operator[](Category category) const { return by_category[static_cast<size_t>(category)]; }
  int64_t total() const;
  bool operator==(const Bytes&) const = default;
};

class Ledger {
 public:
  // Stands for all that is counted until the next call.
  void set_moment(const Moment& moment) { moment_ = moment; }

  // REQUIRES: no category falls below zero.
  void add(Category category, int64_t bytes);
  void remove(Category category, int64_t bytes) { add(category, -bytes); }

  const Bytes& now() const { return now_; }

  // All categories at the moment when their sum was highest, the first such moment since construction or reset_peak().
  const Bytes& peak() const { return peak_; }
  const Moment& peak_moment() const { return peak_moment_; }

  // The peak is what is live now.
  void reset_peak();

 private:
  Bytes now_, peak_;
  int64_t total_ = 0, peak_total_ = 0;
  Moment moment_, peak_moment_;
};

}  // namespace reshard::memory
