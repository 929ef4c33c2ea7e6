#pragma once

// What lies in the memory that the processes of one host share, and in the messages between hosts: plain memory without
// pointers, the same for every process of a build.
//
//   window | rank 0: Area | heap ........ | rank 1: Area | heap ........ | …
//
// A rank writes its own area and heap alone, but for the board of the host's first rank, which is of them all.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "comm/call.h"
#include "comm/mpi/counter.h"

namespace reshard::comm::mpi {

// Cuts between two characters of UTF-8.
template <size_t kSize>
void copy_text(char (&to)[kSize], std::string_view from) {
  size_t length = std::min(from.size(), kSize - 1);
  while (length < from.size() && length > 0 && (static_cast<unsigned char>(from[length]) & 0xC0U) == 0x80U) --length;
  from.copy(to, length);
  to[length] = '\0';
}

// A Call without its buffers.
struct Record {
  uint64_t bytes = 0, number = 0;  // the number counts this group's collectives, from 1
  int32_t root = 0, unit = -1;
  Collective collective = Collective::barrier;
  int8_t tag_dtype = -1, input_dtype = -1, output_dtype = -1;  // -1: none
  char unit_name[100] = {};
};

// One rank's place in one group. The rank raises `step` with each post; records and staging memory alternate with it.
struct Slot {
  std::atomic<uint64_t> key{0};      // of the group, 0 = unused
  std::atomic<uint64_t> staging{0};  // where its two buffers begin, from the rank's area on
  uint64_t number = 0;               // collectives so far
  SharedCounter step;
  Record records[2];
};

struct FailureText {
  int32_t code = 0;
  char what[1700] = {}, remedy[300] = {};
};

// What ended the collectives of a host's ranks.
struct BoardMemory {
  alignas(64) std::atomic<uint32_t> state{0};
  alignas(64) FailureText interruption;
  FailureText final;
};

inline constexpr uint32_t kSlots = 2048;
inline constexpr size_t kBufferBytes = size_t{512} << 10;  // of one post
inline constexpr size_t kBlockBytes = 2 * kBufferBytes;    // of one group at one rank
inline constexpr int kBlocks = 24;                         // groups in use at once

struct Area {
  BoardMemory board;  // in use at the host's first rank
  alignas(64) std::atomic<int32_t> process{0};
  std::atomic<uint32_t> left{0};
  std::atomic<int32_t> ended{-1};
  SharedCounter recovery;  // three per round: come, seen all come, ready
  alignas(64) std::atomic<uint32_t> slots_used{0};
  Slot slots[kSlots];
};

inline constexpr size_t kHeapBegin = (sizeof(Area) + 4095) / 4096 * 4096;
inline constexpr size_t kWindowBytes = kHeapBegin + kBlocks * kBlockBytes;

// What goes between ranks of two hosts; a payload may follow.
struct Letter {
  enum class Kind : uint32_t { post, ask, answer, interrupt, end, leave, recover, ended };
  Kind kind = Kind::post;
  int32_t from = 0;
  uint64_t key = 0;
  uint32_t number = 0;  // a step, a recovery's counter, an ending's code
  uint64_t payload_bytes = 0;
  Record record = {};
};

}  // namespace reshard::comm::mpi
