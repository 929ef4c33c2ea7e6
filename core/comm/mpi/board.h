#pragma once

// Where the processes of one host meet: a piece of memory that all of them have mapped. Everything in it is plain and
// has no addresses; what is polled is atomic. Nobody ever reads another process's own memory, so a rank may leave
// whenever it likes.
//
//   Head      failures, recovery, which groups there are
//   Group     members that meet, and which lane each of them has for that
//   Seat      per rank: its process, whether it has left
//   Slot      per rank and lane: what it calls, and how far it is
//   mailbox   per rank and lane: kMailboxBytes for data on the way
//
// A lane is one of the groups that a rank is in at a time. Pages are touched when a lane is used. Threads: any, by the
// rules of each part.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "comm/call.h"
#include "reshard/error.h"

namespace reshard::comm::mpi {

inline constexpr int kLanes = 8;  // groups that a rank is in at a time
inline constexpr size_t kChunkBytes = size_t{512} << 10;
inline constexpr size_t kMailboxBytes = 2 * kChunkBytes;  // while one chunk is read, the next is written

// A text of at most so many bytes.
template <size_t Size>
struct SharedText {
  char bytes[Size];
  void set(std::string_view text) {
    const size_t size = std::min(text.size(), Size - 1);
    text.copy(bytes, size);
    bytes[size] = '\0';
  }
  std::string get() const { return bytes; }
};

struct SharedCause {
  int32_t code;
  SharedText<1536> what;
  SharedText<256> remedy;
};

// Held for a few writes; taken from a process that died with it.
class SharedLock {
 public:
  void lock();
  void unlock() { held_.store(0, std::memory_order_release); }

 private:
  std::atomic<uint32_t> held_;
};

struct Group {
  uint64_t key;  // of its members and how many groups of these were made before; 0: the place is free
  uint32_t members, present, still_to_come;
};

// Where a rank meets the others of a group.
struct Membership {
  int group = -1, lane = -1;  // -1: there was no room
};

struct Head {
  SharedLock lock;              // of the causes, the groups and the recovery
  std::atomic<uint32_t> state;  // kInterrupted, kFinal: which of the causes may be read
  SharedCause interruption, final;
  std::atomic<uint32_t> round;  // rises when all have come to a recovery
};

struct alignas(64) Seat {
  std::atomic<int32_t> process;
  std::atomic<uint32_t> left, ended;  // ended: it has left or failed
  uint32_t in_recovery, lanes;        // under the lock; lanes: a bit for each that is taken
};

// A Call without addresses.
struct SharedCall {
  Collective collective;
  int32_t root, unit;
  SharedText<64> unit_name;
  uint64_t bytes;
  int8_t input_dtype, output_dtype;  // -1: none
  void set(const Call& call);
  // Its unit's name lives as long as this.
  Call get() const;
};

struct alignas(64) Slot {
  std::atomic<uint32_t> step;
  alignas(64) SharedCall call;
  uint64_t collectives;
};

class Board {
 public:
  static constexpr uint32_t kInterrupted = 1, kFinal = 2;
  static size_t bytes(int ranks);
  static size_t begin_of_mailboxes(int ranks);  // what comes before must be zeroed

  // `memory`: bytes(ranks), zeroed up to the mailboxes, shared by all.
  Board(void* memory, int ranks) : memory_(static_cast<std::byte*>(memory)), ranks_(ranks) {}

  int ranks() const { return ranks_; }
  Head& head() const { return *reinterpret_cast<Head*>(memory_); }
  Seat& seat(int rank) const;
  Slot& slot(int rank, int lane) const;
  std::byte* mailbox(int rank, int lane) const;
  // The lane of a group's member; -1: it has not come yet.
  int lane(int group, int member) const {
    return static_cast<int>(lanes(group)[member].load(std::memory_order_acquire)) - 1;
  }

  // Each keeps the first of its kind. An interruption after a final failure is ignored.
  void interrupt(const SharedCause& cause) const noexcept;
  void end(const SharedCause& cause) const noexcept;
  void end_locked(const SharedCause& cause) const noexcept;  // REQUIRES: this thread holds head().lock
  bool failed() const { return head().state.load(std::memory_order_seq_cst) != 0; }
  bool final() const { return (head().state.load(std::memory_order_seq_cst) & kFinal) != 0; }
  // REQUIRES: failed(). What came first, or with `last` the final one.
  [[noreturn]] void raise(const std::string& where, bool last = false) const;

  // This rank, the group's `member`-th of `members`, joins it; the first who asks makes it. A lane is free again when
  // all members have left the group: until then some may still read there.
  Membership join_group(uint64_t key, int members, int member, int rank) const;
  void leave_group(int group, const std::vector<int>& members) const noexcept;
  void begin_anew() const;  // every slot, after an interruption. REQUIRES: nobody is in a collective

 private:
  int most_groups() const { return kLanes * ranks_; }
  Group& group(int place) const;
  std::atomic<uint8_t>* lanes(int group) const;  // by member, plus one
  std::byte* memory_;
  int ranks_;
};

SharedCause cause(ErrorCode code, std::string_view what, std::string_view remedy);

}  // namespace reshard::comm::mpi
