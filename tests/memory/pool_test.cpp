// The pool under random allocation and release: blocks never overlap and keep their content, the ledger counts exactly
// the bytes asked for, and a step that repeats the step before never makes the pool grow.

#include "memory/pool.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "reshard/error.h"

namespace reshard::memory {
namespace {

int64_t random_size(std::mt19937& random) {
  const auto magnitude = random() % 21;
  return static_cast<int64_t>(random() % (1U << magnitude));  // 0 … 1 MiB, small ones as often as large ones
}

struct Held {
  Block block;
  Category category;
  unsigned char mark;

  bool intact() const {
    const auto* bytes = block.as<unsigned char>();
    for (int64_t i = 0; i < block.bytes(); i += 61) {
      if (bytes[i] != mark) return false;
    }
    return block.bytes() == 0 || bytes[block.bytes() - 1] == mark;
  }
};

TEST(Pool, keeps_blocks_apart_and_counts_them) {
  for (unsigned seed = 0; seed < 6; ++seed) {
    std::mt19937 random(seed);
    Pool pool;
    std::vector<Held> held;
    Bytes live, peak;
    for (int i = 0; i < 2500; ++i) {
      if (held.empty() || random() % 100 < (i % 500 < 250 ? 60U : 40U)) {
        const auto category = static_cast<Category>(random() % kCategories);
        const int64_t bytes = random_size(random);
        held.push_back({pool.allocate(bytes, category), category, static_cast<unsigned char>(random())});
        ASSERT_EQ(held.back().block.bytes(), bytes);
        ASSERT_EQ(reinterpret_cast<uintptr_t>(held.back().block.data()) % 64, 0U);
        if (bytes > 0) std::memset(held.back().block.data(), held.back().mark, static_cast<size_t>(bytes));
        live.by_category[static_cast<size_t>(category)] += bytes;
      } else {
        const size_t victim = random() % held.size();
        ASSERT_TRUE(held[victim].intact());
        live.by_category[static_cast<size_t>(held[victim].category)] -= held[victim].block.bytes();
        std::swap(held[victim], held.back());
        held.pop_back();
      }
      if (live.total() > peak.total()) peak = live;
      ASSERT_EQ(pool.ledger().now(), live);
      ASSERT_EQ(pool.ledger().peak(), peak);
    }
    for (const Held& block : held) ASSERT_TRUE(block.intact());
    EXPECT_GE(pool.system_bytes(), peak.total());
    held.clear();
    EXPECT_EQ(pool.ledger().now().total(), 0);
    EXPECT_EQ(pool.live_blocks(), 0);
  }
}

// A step: a random sequence of allocations and releases that ends with the blocks it began with.
struct Step {
  struct Move {
    int slot;
    int64_t bytes;  // 0: release
  };
  std::vector<Move> moves;

  Step(std::mt19937& random, int length) {
    std::vector<bool> full(40);
    for (int i = 0; i < length; ++i) {
      const auto slot = static_cast<int>(random() % full.size());
      const bool was_full = full[static_cast<size_t>(slot)];
      moves.push_back({slot, was_full ? 0 : 1 + random_size(random)});
      full[static_cast<size_t>(slot)] = !was_full;
    }
    for (int slot = 0; slot < 40; ++slot) {
      if (full[static_cast<size_t>(slot)]) moves.push_back({slot, 0});
    }
  }

  std::vector<void*> run(Pool& pool) const {
    std::vector<Block> slots(40);
    std::vector<void*> addresses;
    for (const Move& move : moves) {
      Block& block = slots[static_cast<size_t>(move.slot)];
      move.bytes == 0 ? block.release() : void(block = pool.allocate(move.bytes, Category::gradients));
      addresses.push_back(block.data());
    }
    return addresses;
  }
};

// The first step differs from the later ones (prefetching follows another order there), and some blocks stay for good.
TEST(Pool, does_not_grow_when_a_step_repeats) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    std::mt19937 random(seed);
    Pool pool;
    const Step first(random, 300), later(random, 300);
    std::vector<Block> for_good;
    for (int i = 0; i < 10; ++i) for_good.push_back(pool.allocate(random_size(random), Category::sharded_parameters));
    first.run(pool);
    for (int i = 0; i < 10; ++i) for_good.push_back(pool.allocate(random_size(random), Category::optimizer_state));
    const std::vector<void*> addresses = later.run(pool);
    const int64_t allocations = pool.allocations_from_system(), bytes = pool.system_bytes();
    for (int step = 0; step < 5; ++step) EXPECT_EQ(later.run(pool), addresses);
    EXPECT_EQ(pool.allocations_from_system(), allocations);
    EXPECT_EQ(pool.system_bytes(), bytes);
  }
}

TEST(Pool, hands_a_released_block_out_again) {
  Pool pool;
  const int64_t bytes = 5 << 20;
  void* address = pool.allocate(bytes, Category::whole_parameters).data();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(pool.allocate(bytes, Category::whole_parameters).data(), address);
  EXPECT_EQ(pool.allocations_from_system(), 1);
  EXPECT_LE(pool.system_bytes(), bytes + (2 << 20));
}

TEST(Pool, an_empty_block_is_an_empty_handle) {
  Pool pool;
  const Block block = pool.allocate(0, Category::gradients);
  EXPECT_EQ(block.data(), nullptr);
  EXPECT_FALSE(block);
  EXPECT_EQ(pool.system_bytes(), 0);
}

TEST(Pool, a_moved_block_is_released_once) {
  Pool pool;
  Block a = pool.allocate(100, Category::gradients);
  Block b = std::move(a);
  EXPECT_FALSE(a);
  EXPECT_EQ(pool.live_blocks(), 1);
  b = pool.allocate(200, Category::optimizer_state);
  EXPECT_EQ(pool.ledger().now()[Category::gradients], 0);
  EXPECT_EQ(pool.ledger().now()[Category::optimizer_state], 200);
  b.release();
  b.release();
  EXPECT_EQ(pool.live_blocks(), 0);
}

TEST(Pool, says_when_there_is_no_memory) {
  Pool pool;
  const Block block = pool.allocate(1 << 20, Category::gradients);
  try {
    pool.allocate(int64_t{1} << 50, Category::whole_parameters);
    FAIL() << "no exception";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::io);
    EXPECT_STREQ(error.what(),
                 "memory pool: the system has no memory for a block of 1 PiB (Cannot allocate memory); this rank "
                 "holds 2 MiB (use more ranks, a smaller model, or a strategy that keeps less)");
  }
  for (const int64_t bytes : {std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::max() - 64})
    EXPECT_THROW(pool.allocate(bytes, Category::activations), Error);
  EXPECT_EQ(pool.ledger().now().total(), 1 << 20);
}

TEST(PoolDeathTest, stops_at_a_negative_size) {
  Pool pool;
  EXPECT_DEATH(pool.allocate(-1, Category::activations), "a block has no negative size");
}

TEST(PoolDeathTest, stops_when_a_block_outlives_it) {
  EXPECT_DEATH(
      {
        Block block;
        Pool pool;
        block = pool.allocate(1, Category::gradients);
      },
      "blocks are released before their pool dies");
}

}  // namespace
}  // namespace reshard::memory
