#pragma once

// Which rank waits where for which, so that ranks that wait for each other are told apart from ranks that are slow.
//
// A rank waits for one other at a time. If it is one thread, a circle of such waits never ends: each of them would have
// to go on first. With more threads per rank another thread may still come, so circles are looked for with one only.
//
// Threads: any. Nobody leaves a noted wait while another thread looks for a circle. Nothing is allocated but for texts.

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "device/host/wait.h"

namespace reshard::comm {

struct Call;

class Waits {
 public:
  Waits(int ranks, int threads_per_rank) : threads_per_rank_(threads_per_rank), first_(static_cast<size_t>(ranks)) {}

  // A wait of `rank` for `peer`, whose counter is to reach `step`; noted for as long as this lives. `call` is the one
  // that it waits in.
  class Noted {
   public:
    Noted(Waits& waits, int rank, int peer, const device::Counter& counter, uint32_t step, const Call& call);
    ~Noted();
    Noted(const Noted&) = delete;
    Noted& operator=(const Noted&) = delete;

   private:
    friend class Waits;
    bool is_over() const { return static_cast<int32_t>(counter_.value() - step_) >= 0; }
    std::string text() const;  // "rank 1 waits in barrier for rank 0"

    Waits& waits_;
    const int rank_, peer_;
    const device::Counter& counter_;
    const uint32_t step_;
    const Call& call_;
    Noted* next_;  // of the same rank
  };

  // "rank 0 waits in all-gather of unit h.3 for rank 1, rank 1 waits in barrier for rank 0", the lowest rank first,
  // where this rank's wait leads into a circle.
  std::optional<std::string> circle(int rank);

  // "; rank 1 waits in barrier for rank 0" for each noted wait of this rank, or nothing.
  std::string places_text(int rank);

 private:
  Noted*& first(int rank) { return first_[static_cast<size_t>(rank)]; }

  const int threads_per_rank_;
  std::mutex mutex_;
  std::vector<Noted*> first_;  // by the rank that waits
};

}  // namespace reshard::comm
