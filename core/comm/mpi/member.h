#pragma once

// One rank's place in a group whose ranks are processes.
//
// A collective is: open() · { write buffer() · post() · read from() } once or more. A post shows the others what lies
// in buffer() and waits until all have posted as far. Near ranks read it in the window; far ones get a letter with
// their part.
//
// Note "Two buffers". Posts alternate between them. Who writes its buffer for post n has seen everybody's post n - 1,
// so everybody is done reading what post n - 2 showed, which lay there. Hence a collective that moves little is one
// meeting.
//
// Note "All or none", as in local/rendezvous.h: whether a peer has come is looked at before whether something failed,
// so a collective that returned at one rank returns at every member.
//
// Threads: one at a time.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/call.h"
#include "comm/mpi/seat.h"

namespace reshard::comm::mpi {

class Member {
 public:
  // What buffer() holds: the same for all, or a part for each, `stride` bytes apart, in the order of ranks.
  enum class Parts : uint8_t { same_for_all, one_for_each };

  // `ranks`: of the group, as all ranks count them; this one is at `place`.
  Member(std::shared_ptr<Seat> seat, uint64_t key, std::vector<int> ranks, int place);
  ~Member();
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  int rank() const { return place_; }
  int size() const { return static_cast<int>(ranks_.size()); }
  uint64_t key() const { return key_; }
  const std::vector<int>& ranks() const { return ranks_; }
  Seat& seat() const { return *seat_; }
  const std::shared_ptr<Seat>& shared_seat() const { return seat_; }

  void open(const Call& call);
  std::byte* buffer();  // kBufferBytes, aligned to a cache line
  // `bytes`: of a part. The first post of a collective compares the ranks' calls.
  void post(Parts parts, size_t bytes, size_t stride);
  // What the rank at `place` posted for this one; until the next post but one.
  const std::byte* from(int place) const;
  // Waits until the far ranks have what this one posted.
  void close();

 private:
  void await(int place, uint32_t step);
  bool has_come(int place, uint32_t step);
  void check_alive(int place, uint32_t step, int64_t nanoseconds_over);
  void pause(int place, uint32_t step);
  bool is_in_flight(int place, uint32_t step);
  void post_by_letters(Parts parts, size_t bytes, size_t stride, uint32_t step);
  Slot* find(int place);
  void compare();
  [[noreturn]] void disagree(int other);
  const Record& record_of(int place) const;
  std::string where() const;
  [[noreturn]] void raise() { seat_->board().raise(where()); }
  const std::string& name_of(int place) const { return seat_->name(ranks_[static_cast<size_t>(place)]); }

  // A peer's slot, or its mirror; null as long as a near peer has not made its own.
  struct Peer {
    Slot* slot = nullptr;
    Mirror* mirror = nullptr;
    uint32_t asked = 0;  // whether it has come to this step
  };

  const std::shared_ptr<Seat> seat_;
  const uint64_t key_;
  const std::vector<int> ranks_;
  const int place_;
  Slot& slot_;
  std::vector<Peer> peers_;
  bool far_ = false;  // some are on other hosts
  bool first_ = false;
  Parts parts_ = Parts::same_for_all;
  size_t stride_ = 0;
  std::vector<Mail::Part> letters_;
  uint64_t block_ = 0;
};

// The Call that a record tells of; its name lives as long as the record.
Call as_call(const Record& record);

}  // namespace reshard::comm::mpi
