#ifndef RESHARD_STRATEGY_FEEDBACK_HPP
#define RESHARD_STRATEGY_FEEDBACK_HPP

// What the last step showed (Feedback), for a strategy with a member
//
//   bool feedback(const Feedback& step);   // true: decide anew before the next step
//
// which the host calls after each step, with the same values on every rank. Part of strategy.hpp.

#include <cstdint>
#include <type_traits>
#include <utility>

#include "ext/feedback.h"

namespace reshard::sdk {

// A view that is valid inside feedback(). Times are seconds of the slowest rank.
class Feedback {
 public:
  explicit Feedback(const reshard_summary* raw) : raw_(raw) {}

  uint64_t step() const { return raw_->step; }  // from 0, over the whole run
  bool skipped() const { return (raw_->flags & RESHARD_STEP_SKIPPED) != 0; }
  bool first_of_plan() const { return (raw_->flags & RESHARD_STEP_FIRST) != 0; }
  double seconds() const { return raw_->seconds; }
  double seconds_exposed() const { return raw_->seconds_exposed; }
  int64_t peak_bytes(uint32_t category) const { return raw_->peak_bytes[category]; }  // RESHARD_GRADIENTS, …
  int64_t peak_bytes() const {
    int64_t sum = 0;
    for (const int64_t bytes : raw_->peak_bytes) sum += bytes;
    return sum;
  }
  // By a unit's index in the problem.
  uint32_t unit_count() const { return raw_->unit_count; }
  const reshard_unit_summary& unit(uint32_t index) const { return *reshard_unit_summary_at(raw_, index); }

 private:
  const reshard_summary* raw_;
};

namespace detail {

template <class T, class = void>
struct HasFeedback : std::false_type {};
template <class T>
struct HasFeedback<T, std::void_t<decltype(std::declval<T&>().feedback(std::declval<const Feedback&>()))>>
    : std::true_type {};

}  // namespace detail
}  // namespace reshard::sdk

#endif
