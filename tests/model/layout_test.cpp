// Properties of the flat layout over random and awkward sizes and shard counts.

#include "model/layout.h"

#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace reshard::model {
namespace {

// Sizes of a unit's parameters: none, one element, primes, block edges, and random ones.
std::vector<std::vector<int64_t>> units() {
  std::vector<std::vector<int64_t>> all = {{},
                                           {1},
                                           {2},
                                           {63},
                                           {64},
                                           {65},
                                           {127},
                                           {997},
                                           {104729},
                                           {1, 1, 1, 1},
                                           {64, 64},
                                           {1, 104729, 1},
                                           {3, 5, 7},
                                           {4096, 1, 63},
                                           {100000, 2, 2},
                                           {768, 768 * 768, 768, 1}};
  std::mt19937_64 engine(1);
  for (int i = 0; i < 200; ++i) {
    std::vector<int64_t> unit(std::uniform_int_distribution<std::size_t>(1, 8)(engine));
    for (int64_t& size : unit) size = std::uniform_int_distribution<int64_t>(1, i % 2 == 0 ? 100 : 20000)(engine);
    all.push_back(unit);
  }
  return all;
}

TEST(Layout, ParametersStartAtBlocksInOrderAndDoNotOverlap) {
  for (const auto& unit : units()) {
    const Layout layout(unit, 1);
    ASSERT_EQ(layout.parameter_count(), static_cast<int>(unit.size()));
    int64_t end = 0;
    for (int p = 0; p < layout.parameter_count(); ++p) {
      EXPECT_EQ(layout.elements(p), unit[static_cast<std::size_t>(p)]);
      EXPECT_EQ(layout.offset(p) % kBlock, 0);
      EXPECT_GE(layout.offset(p), end);
      EXPECT_LT(layout.offset(p) - end, kBlock);  // no more padding than alignment asks for
      end = layout.offset(p) + layout.elements(p);
    }
  }
}

TEST(Layout, OffsetsDoNotDependOnTheShardCount) {
  for (const auto& unit : units())
    for (const int shards : {2, 3, 5, 8, 17, 64})
      for (int p = 0; p < static_cast<int>(unit.size()); ++p)
        EXPECT_EQ(Layout(unit, shards).offset(p), Layout(unit, 1).offset(p));
}

TEST(Layout, ShardsAreEqualWholeBlocksAndNoLargerThanNeeded) {
  for (const auto& unit : units()) {
    const Layout one(unit, 1);
    for (const int shards : {1, 2, 3, 4, 5, 7, 8, 17, 64}) {
      const Layout layout(unit, shards);
      EXPECT_EQ(layout.shards(), shards);
      EXPECT_EQ(layout.shard_elements() % kBlock, 0);
      EXPECT_EQ(layout.whole_elements(), layout.shard_elements() * shards);
      EXPECT_GE(layout.whole_elements(), one.whole_elements());
      EXPECT_TRUE(unit.empty() ? layout.shard_elements() == 0
                               : (layout.shard_elements() - kBlock) * shards < one.whole_elements());
    }
  }
}

TEST(Layout, FragmentsTileEveryParameterExactlyOnce) {
  for (const auto& unit : units())
    for (const int shards : {1, 2, 3, 4, 5, 7, 8, 17, 64}) {
      const Layout layout(unit, shards);
      std::vector<int64_t> next(unit.size(), 0);  // the first element of each parameter that no shard has had yet
      for (int shard = 0; shard < shards; ++shard) {
        int64_t end = 0;
        for (const Fragment& fragment : layout.fragments(shard)) {
          int64_t& at = next[static_cast<std::size_t>(fragment.parameter)];
          ASSERT_GT(fragment.length, 0);
          ASSERT_EQ(fragment.offset, at);
          at += fragment.length;
          ASSERT_GE(fragment.shard_offset, end);
          end = fragment.shard_offset + fragment.length;
          ASSERT_LE(end, layout.shard_elements());
          // The same element by both ways of counting.
          ASSERT_EQ(layout.offset(fragment.parameter) + fragment.offset,
                    shard * layout.shard_elements() + fragment.shard_offset);
        }
      }
      ASSERT_EQ(next, unit);
    }
}

TEST(Layout, AShardMayHoldPaddingOnly) {
  const Layout layout(std::vector<int64_t>{1, 1}, 4);
  EXPECT_EQ(layout.shard_elements(), 64);
  EXPECT_EQ(layout.fragments(0).size(), 1U);
  EXPECT_EQ(layout.fragments(1).size(), 1U);
  EXPECT_TRUE(layout.fragments(2).empty());
  EXPECT_TRUE(layout.fragments(3).empty());
}

TEST(Layout, AUnitWithoutParametersHasNothing) {
  const Layout layout({}, 3);
  EXPECT_EQ(layout.whole_elements(), 0);
  EXPECT_EQ(layout.parameter_count(), 0);
  EXPECT_TRUE(layout.fragments(2).empty());
}

TEST(LayoutDeathTest, RefusesWhatNoUnitHas) {
  EXPECT_DEATH(Layout(std::vector<int64_t>{0}, 2), "a parameter has at least one element");
  EXPECT_DEATH(Layout(std::vector<int64_t>{1}, 0), "a unit is laid out over at least one shard");
}

}  // namespace
}  // namespace reshard::model
