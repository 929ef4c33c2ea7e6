#pragma once

// One rank's place in a group on a board. A collective is: open() (say what is called, wait for all, compare), then as
// many turn()s as it has steps. What a rank wrote into its mailbox before a turn may be read by all after it; a mailbox
// has two halves, so that one is written while the other is read.
//
// A rank that waits for peers who have all come goes on, whatever failure there is: so a collective that returned at
// one rank returns at every member, unless somebody gave up from outside of it.
//
// Threads: one at a time.

#include <memory>
#include <string>
#include <vector>

#include "comm/mpi/board.h"
#include "device/host/wait.h"

namespace reshard::comm::mpi {

// What all communicators of one process have in common.
struct Terms {
  Board board;
  int rank = 0;                    // of this process, among all
  std::vector<std::string> hosts;  // by rank
  double timeout_seconds = 60;
  device::Patience patience;
};

class Participant {
 public:
  // `members`: ranks among all, in the group's order. Throws Error(communication) where the board has no room for a
  // group.
  Participant(std::shared_ptr<const Terms> terms, uint64_t key, std::vector<int> members);
  ~Participant();
  Participant(const Participant&) = delete;
  Participant& operator=(const Participant&) = delete;

  int rank() const { return place_; }
  int size() const { return static_cast<int>(members_.size()); }
  const std::vector<int>& members() const { return members_; }
  const Terms& terms() const { return *terms_; }
  const Board& board() const { return terms_->board; }

  void open(const Call& call);
  void turn();
  // REQUIRES: between open() and the end of the collective.
  std::byte* mailbox(int member) const { return board().mailbox(rank_of(member), lane_of(member)); }

  void recover();
  SharedCause failure(std::string_view message) const;

 private:
  int rank_of(int member) const { return members_[static_cast<size_t>(member)]; }
  int lane_of(int member) const { return board().lane(self_.group, member); }
  Slot& own() const { return board().slot(terms_->rank, self_.lane); }
  Slot& slot(int member) const { return board().slot(rank_of(member), lane_of(member)); }
  bool has_come(int member, uint32_t step) const;
  void await(int member, uint32_t step);
  void check_alive(int member, uint32_t step, bool late);
  void compare() const;
  void check_recovery(const std::string& place, uint32_t round, bool late);
  std::string where() const;
  std::string name_of(int member) const;  // "rank 2", with its host where there are several
  std::string text_of_own() const;

  const std::shared_ptr<const Terms> terms_;
  const std::vector<int> members_;
  int place_ = 0;
  Membership self_;
};

// Whether the process of that rank is still there.
bool is_alive(const Seat& seat);

}  // namespace reshard::comm::mpi
