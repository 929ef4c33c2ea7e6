#pragma once

// Where the ranks of one group meet: each publishes what it calls and its buffers, waits for the others, and looks at
// theirs.
//
// A collective is: open() (publish, wait for all, compare) · read the others' buffers · [turn() · read on] · close()
// (wait until all are done reading). A rank's counter rises by one at each of these, so after open() a rank may read
// what the others published, and nobody publishes anew before all have come to close().
//
// Note "Leaving early". A rank that gives up while others may be reading its buffers must not let its caller free them.
// It says so by the shared failure first and then waits until nobody reads; a reader raises its `reading` flag first
// and then looks at the failure. The same holds for the names in the calls, which are read to say what disagrees. All
// four accesses are sequentially consistent, so one of the two sees the other. Nobody publishes anew before the failure
// is cleared, and it is cleared when every rank has come to the recovery, that is, out of all collectives.
//
// Note "All or none". A rank that waits for peers who have all come goes on, whatever failure there is: it may have
// been set by a peer that is past this point already. So a collective that returned at one rank returns at every
// member, unless somebody gave up from outside of it.
//
// Threads: one Participant per rank and group, used by one thread at a time; a Rendezvous by all of them.

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "comm/call.h"
#include "comm/communicator.h"
#include "comm/local/failure.h"
#include "comm/local/recovery.h"
#include "comm/local/waits.h"
#include "device/host/wait.h"

namespace reshard::comm {

class Rendezvous;

// What the ranks of one LocalRanks and all groups split from it have in common.
struct Terms {
  Terms(int ranks, int threads_per_rank) : failure(ranks), recovery(ranks), waits(ranks, threads_per_rank) {}
  Failure failure;
  Recovery recovery;
  Waits waits;
  device::Patience patience;
  double timeout_seconds = 60;
  size_t streaming_bytes = 0;

  std::mutex mutex;                                   // of `rendezvous` only
  std::vector<std::weak_ptr<Rendezvous>> rendezvous;  // all that still live, to be cleaned by a recovery
};

class Rendezvous {
 public:
  static std::shared_ptr<Rendezvous> make(std::shared_ptr<Terms> terms, std::vector<int> members);

  int size() const { return static_cast<int>(members_.size()); }

  // The group of these places of this one. All who ask for the same places for the n-th time get the same group.
  std::shared_ptr<Rendezvous> group(const std::vector<int>& places, uint64_t nth);

 private:
  friend class Participant;

  Rendezvous(std::shared_ptr<Terms> terms, std::vector<int> members);

  // All ranks at the same place again. REQUIRES: none of them is in a collective.
  void clean();

  // A cache line of its own for what is polled, another for what is written once per collective.
  struct alignas(64) Slot {
    device::Counter step;
    alignas(64) Call call;
    uint64_t collectives = 0;
    std::atomic<bool> reading{false};
  };

  struct Pending {
    std::shared_ptr<Rendezvous> group;
    size_t still_to_come;
  };

  const std::shared_ptr<Terms> terms_;
  const std::vector<int> members_;  // ranks as the user knows them, for error texts
  std::unique_ptr<Slot[]> slots_;
  std::mutex mutex_;  // of pending_ only
  std::map<std::pair<std::vector<int>, uint64_t>, Pending> pending_;
};

// One rank's place at a rendezvous.
class Participant {
 public:
  Participant(std::shared_ptr<Rendezvous> rendezvous, int rank);

  int rank() const { return rank_; }
  int size() const { return size_; }

  void open(const Call& call);
  void turn() { meet(); }
  void close();

  // REQUIRES: between open() and close().
  const Call& peer(int rank) const { return rendezvous_->slots_[static_cast<size_t>(rank)].call; }

  Rendezvous& rendezvous() { return *rendezvous_; }
  const Terms& terms() const { return *rendezvous_->terms_; }

  void fail(std::string_view message) noexcept;
  void interrupt(std::string_view message) noexcept;
  bool interrupted() const { return rendezvous_->terms_->failure.is_set(); }
  void check() const;
  void recover();
  void leave() noexcept;

 private:
  void meet();  // raises this rank's counter and waits until all others have come as far
  void await(int peer, uint32_t step);
  bool has_come(int peer, uint32_t step) const;
  void check_alive(int peer, uint32_t step, int64_t nanoseconds_over);
  void check_circle(int peer, uint32_t step);
  void compare();
  [[noreturn]] void disagree(int other);
  [[noreturn]] void give_up();
  std::string where(const Call& call) const;
  Cause cause(std::string_view message) const;
  int name_of(int rank) const { return rendezvous_->members_[static_cast<size_t>(rank)]; }
  Rendezvous::Slot& mine() { return rendezvous_->slots_[static_cast<size_t>(rank_)]; }

  std::shared_ptr<Rendezvous> rendezvous_;
  const int rank_, size_;
};

}  // namespace reshard::comm
