// Properties of the flat layout over random and awkward sizes and shard counts.

#include "model/layout.h"

#include <random>
#include <string>
#include <utility>
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
  const Layout layout(std::vector<int64_t>{}, 3);
  EXPECT_EQ(layout.whole_elements(), 0);
  EXPECT_EQ(layout.parameter_count(), 0);
  EXPECT_TRUE(layout.fragments(2).empty());
}

// Units with trainable and frozen parameters, tied ones, and ones that must not be cut.
std::vector<Piece> random_pieces(std::mt19937_64& engine) {
  const auto roll = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(engine);
  };
  std::vector<Piece> pieces;
  for (int64_t p = roll(1, 8); p > 0; --p) {
    Piece piece{.elements = roll(0, 1) == 0 ? roll(1, 130) : roll(1, 20000), .trainable = roll(0, 1) == 0};
    if (roll(0, 2) == 0) piece.block = roll(0, 2) == 0 ? piece.elements : (int64_t{1} << roll(0, 8)) * (roll(0, 3) == 0 ? 3 : 1);
    if (roll(0, 5) == 0 && !pieces.empty() && pieces[0].same_as < 0) {
      piece = pieces[0];
      piece.same_as = 0;
    }
    pieces.push_back(piece);
  }
  return pieces;
}

// Each parameter's elements lie where offset() says, in the section of its kind, and are cut only where it allows.
TEST(Layout, SectionsTiesAndBlocksHoldForRandomUnits) {
  std::mt19937_64 engine(7);
  for (int round = 0; round < 600; ++round) {
    const std::vector<Piece> pieces = random_pieces(engine);
    for (const int shards : {1, 2, 3, 4, 7, 16}) {
      SCOPED_TRACE("round " + std::to_string(round) + ", shards " + std::to_string(shards));
      const Layout layout(pieces, shards);
      std::vector<int64_t> next(pieces.size(), 0);
      for (int shard = 0; shard < shards; ++shard)
        for (const Fragment& part : layout.fragments(shard)) {
          const Piece& piece = pieces[static_cast<std::size_t>(part.parameter)];
          const Section& section = layout.sections()[piece.trainable ? 0 : 1];
          ASSERT_LT(piece.same_as, 0) << "shared memory occurs once";
          ASSERT_EQ(part.offset, std::exchange(next[static_cast<std::size_t>(part.parameter)],
                                               part.offset + part.length));
          ASSERT_GE(part.shard_offset, section.shard_offset);
          ASSERT_LE(part.shard_offset + part.length, section.shard_offset + section.shard_elements);
          ASSERT_EQ(layout.offset(part.parameter) + part.offset,
                    section.whole_offset + shard * section.shard_elements + part.shard_offset - section.shard_offset);
          if (piece.block >= piece.elements)
            ASSERT_TRUE(piece.block == 1 || part.length == piece.elements) << "cut";
          else
            ASSERT_EQ(part.offset % piece.block, 0) << "cut inside a block of " << piece.block;
        }
      for (std::size_t p = 0; p < pieces.size(); ++p) {
        ASSERT_EQ(layout.offset(static_cast<int>(p)) % kBlock, 0);
        if (pieces[p].same_as < 0)
          ASSERT_EQ(next[p], pieces[p].elements);
        else
          ASSERT_EQ(layout.offset(static_cast<int>(p)), layout.offset(pieces[p].same_as));
      }
      ASSERT_EQ(layout.frozen().shard_offset, layout.trainable().shard_elements);
      ASSERT_EQ(layout.whole_elements() % (kBlock * shards), 0);
    }
  }
}

TEST(Layout, AParameterThatIsNotCutCostsPaddingOnly) {
  const std::vector<Piece> pieces = {{.elements = 500}, {.elements = 600, .block = 600}, {.elements = 100}};
  const Layout layout(pieces, 2);
  EXPECT_EQ(layout.shard_elements(), 768);
  EXPECT_EQ(layout.offset(1), 768);  // 500 elements, then padding up to the border
  EXPECT_EQ(Layout(pieces, 1).shard_elements(), 512 + 640 + 128);
}

TEST(Layout, GradientsCoverTheTrainableSectionAlone) {
  const std::vector<Piece> pieces = {
      {.elements = 1000, .trainable = false}, {.elements = 64}, {.elements = 10, .trainable = false}, {.elements = 64}};
  const Layout layout(pieces, 2);
  EXPECT_EQ(layout.trainable().shard_elements, 64);
  EXPECT_EQ(layout.frozen().shard_elements, 576);  // (1024 + 64) / 2, in whole blocks
  EXPECT_EQ(layout.offset(1), 0);
  EXPECT_EQ(layout.offset(3), 64);
  EXPECT_EQ(layout.offset(0), 128);
}

TEST(LayoutDeathTest, RefusesWhatNoUnitHas) {
  EXPECT_DEATH(Layout(std::vector<int64_t>{0}, 2), "a parameter has at least one element");
  EXPECT_DEATH(Layout(std::vector<int64_t>{1}, 0), "a unit is laid out over at least one shard");
}

}  // namespace
}  // namespace reshard::model
