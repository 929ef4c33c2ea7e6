#pragma once

// Counts and times what communication did. Counts are the compute thread's; running times come from the stream's
// thread.

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "reshard/report.h"

namespace reshard::engine {

enum class Transfer : uint8_t { gather, shrink, reduce, all_reduce, relay };
inline constexpr int kTransfers = 5;

inline int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// What compute waited for one unit so far, and how often it was gathered.
struct UnitExposed {
  int64_t gather_forward_ns = 0, gather_backward_ns = 0, reduce_ns = 0, gathers = 0;
};

class Meter {
 public:
  explicit Meter(int units) : by_unit_(static_cast<std::size_t>(units)) {}

  // Whether what follows belongs to a backward pass.
  void set_backward(bool backward) { backward_ = backward; }

  void count(Transfer kind, int64_t bytes) {
    ++at(kind).count;
    at(kind).bytes += bytes;
  }
  void exposed(Transfer kind, int unit, int64_t ns) {
    at(kind).exposed_ns += ns;
    exposed_ns_ += ns;
    UnitExposed& of = by_unit_[static_cast<std::size_t>(unit)];
    (kind != Transfer::gather ? of.reduce_ns : backward_ ? of.gather_backward_ns : of.gather_forward_ns) += ns;
  }
  void gathered(int unit) { ++by_unit_[static_cast<std::size_t>(unit)].gathers; }
  // From the thread that ran it.
  void ran(Transfer kind, int64_t ns) { at(kind).running_ns.fetch_add(ns, std::memory_order_relaxed); }

  int64_t exposed_ns() const { return exposed_ns_; }
  const std::vector<UnitExposed>& by_unit() const { return by_unit_; }

  TrafficByOp traffic() const {
    return {traffic(Transfer::gather), traffic(Transfer::shrink), traffic(Transfer::reduce),
            traffic(Transfer::all_reduce), traffic(Transfer::relay)};
  }

 private:
  struct Sum {
    int64_t count = 0, bytes = 0, exposed_ns = 0;
    std::atomic<int64_t> running_ns{0};
  };
  Sum& at(Transfer kind) { return sums_[static_cast<std::size_t>(kind)]; }
  Traffic traffic(Transfer kind) const {
    const Sum& sum = sums_[static_cast<std::size_t>(kind)];
    return {sum.count, sum.bytes, static_cast<double>(sum.running_ns.load(std::memory_order_relaxed)) * 1e-9,
            static_cast<double>(sum.exposed_ns) * 1e-9};
  }

  std::array<Sum, kTransfers> sums_;
  std::vector<UnitExposed> by_unit_;
  bool backward_ = false;
  int64_t exposed_ns_ = 0;
};

}  // namespace reshard::engine
