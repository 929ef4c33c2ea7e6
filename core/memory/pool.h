#pragma once

// The memory of one rank: one range of addresses that grows and from which blocks are cut. Blocks that are released are
// handed out again, so a unit that is gathered, freed and gathered again costs no call to the operating system, no page
// fault and no zeroing by the kernel. Memory goes back to the system when the pool dies. It lies on huge pages where
// the system grants them.
//
//   | block | block | free | block | free      | (grows to the right)
//
// A block is cut from the lowest free piece that is long enough, and neighbouring free pieces are one piece. So where a
// block lies depends on nothing but the blocks that live, and a larger range changes no earlier choice: a step that
// asks for and releases the same sizes in the same order as the step before never makes the pool grow.
//
// The pool counts exactly the bytes asked for, by category, when a block is handed out and when it is released: its
// ledger is the measured memory that reports show. What it holds beyond that is system_bytes().
//
// Threads: one thread, the rank's compute thread, uses a pool and releases its blocks. Which thread reads and writes a
// block's memory is the caller's business.

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "memory/ledger.h"

namespace reshard::memory {

class Pool;

// A piece of a pool's memory, released when the handle dies. Movable. REQUIRES: the pool outlives it.
class Block {
 public:
  Block() = default;
  Block(Block&& other) noexcept { *this = std::move(other); }
  Block& operator=(Block&& other) noexcept;
  ~Block() { release(); }

  void* data() const { return data_; }  // aligned to 64 bytes; null for an empty handle
  int64_t bytes() const { return bytes_; }
  explicit operator bool() const { return pool_ != nullptr; }

  template <class Value>
  Value* as() const {
    return static_cast<Value*>(data_);
  }

  void release();  // gives the memory back to the pool now; no effect on an empty handle

 private:
  friend class Pool;
  Block(Pool* pool, void* data, int64_t bytes, Category category)
      : pool_(pool), data_(data), bytes_(bytes), category_(category) {}

  Pool* pool_ = nullptr;
  void* data_ = nullptr;
  int64_t bytes_ = 0;
  Category category_ = Category::activations;
};

class Pool {
 public:
  Pool();
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // Memory of `bytes` bytes, 64-byte aligned, with any content. For bytes = 0 the handle is an empty one. Throws
  // Error(io) when the system has no memory left.
  Block allocate(int64_t bytes, Category category);

  Ledger& ledger() { return ledger_; }
  const Ledger& ledger() const { return ledger_; }

  int64_t system_bytes() const { return size_; }                                // held from the system, used or not
  int64_t allocations_from_system() const { return allocations_from_system_; }  // how often it had to grow
  int64_t live_blocks() const { return live_blocks_; }

 private:
  friend class Block;
  struct Piece {
    int64_t begin, bytes;  // offset into the range
    int64_t end() const { return begin + bytes; }
  };

  int64_t cut(int64_t bytes);  // offset of a piece of that size, -1 where none is long enough
  void grow(int64_t bytes);    // until the last piece is free and has that size
  void release(const Block& block);
  void add_free(Piece piece);

  Ledger ledger_;
  char* mapping_ = nullptr;          // the addresses set aside
  char* range_ = nullptr;            // their first huge page
  int64_t reserved_ = 0, size_ = 0;  // addresses from range_ on, and how many of them have memory
  std::vector<Piece> free_;          // by rising offset, never two that touch
  int64_t allocations_from_system_ = 0, live_blocks_ = 0;
};

}  // namespace reshard::memory
