// tree_sum adds in the promised order and format for any number of rows, with every instruction set that this machine
// has: bit-equal to a recursion written here, value by value, from the words "pairs of neighbours, bottom up, an odd
// one passing up". It may write onto one of its inputs, and writes nothing beside its output.

#include "comm/reduce.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

namespace reshard::comm {
namespace {

// Values of one format with some space before and behind, as tree_sum sees them.
struct Row {
  Row(Dtype format, size_t values, size_t shift)
      : dtype(format), count(values), first(shift % kMargin), bytes((values + 2 * kMargin) * width()) {}

  size_t width() const { return static_cast<size_t>(bytes_of(dtype)); }
  void* data() { return bytes.data() + first * width(); }

  float at(size_t i) const {
    const std::byte* place = bytes.data() + (first + i) * width();
    if (dtype == Dtype::fp32) {
      float value;
      std::memcpy(&value, place, sizeof(value));
      return value;
    }
    Bf16 value;
    std::memcpy(&value, place, sizeof(value));
    return static_cast<float>(value);
  }

  void set(size_t i, float value) {
    std::byte* place = bytes.data() + (first + i) * width();
    const Bf16 half(value);
    dtype == Dtype::fp32 ? std::memcpy(place, &value, sizeof(value)) : std::memcpy(place, &half, sizeof(half));
  }

  static constexpr size_t kMargin = 64;
  Dtype dtype;
  size_t count, first;
  std::vector<std::byte> bytes;
};

// Magnitudes differ widely, so that another order shows; one in `rare` is a zero, a subnormal, an infinity or a NaN, or
// lies half way between two values of bf16.
float random_value(std::mt19937_64& random, uint64_t rare) {
  if (rare != 0 && random() % rare == 0) {
    constexpr uint32_t kBits[] = {0x00000000, 0x80000000, 0x00000001, 0x80004000, 0x00018000, 0x007FFFFF, 0x7F800000,
                                  0xFF800000, 0x7F800001, 0xFFC12345, 0x3F808000, 0x3F818000, 0x7F7FFFFF, 0x7F7F7FFF};
    return std::bit_cast<float>(kBits[random() % std::size(kBits)]);
  }
  return std::ldexp(static_cast<float>(random() % 65536) - 32768.0F, static_cast<int>(random() % 40) - 20);
}

void fill(Row& row, std::mt19937_64& random, uint64_t rare = 0) {
  for (size_t i = 0; i < row.count; ++i) row.set(i, random_value(random, rare));
}

float rounded(Dtype dtype, float value) {
  return dtype == Dtype::bf16 ? static_cast<float>(Bf16(value)) : value;
}

float bottom_up(const std::vector<Row>& rows, size_t i, Dtype dtype) {
  std::vector<float> terms;
  for (const Row& row : rows) terms.push_back(rounded(dtype, row.at(i)));
  while (terms.size() > 1) {
    std::vector<float> pairs;
    for (size_t t = 0; t + 1 < terms.size(); t += 2) pairs.push_back(rounded(dtype, terms[t] + terms[t + 1]));
    if (terms.size() % 2 != 0) pairs.push_back(terms.back());
    terms.swap(pairs);
  }
  return terms[0];
}

// Which NaN a sum of two is, is the compiler's choice.
bool same(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}

struct Case {
  Dtype input, output;
  int ranks;
  size_t count;
  ReduceOptions options;
  device::Store store;
  device::Instructions instructions;
};

void expect_equal_to_the_recursion(const Case& c, std::mt19937_64& random) {
  std::vector<Row> rows;
  std::vector<const void*> inputs;
  for (int r = 0; r < c.ranks; ++r) {
    rows.emplace_back(c.input, c.count, random() % 64);
    fill(rows.back(), random, 20);
  }
  for (Row& row : rows) inputs.push_back(row.data());
  Row output(c.output, c.count, random() % 64);
  for (auto& byte : output.bytes) byte = std::byte{0xee};
  fill(output, random, 20);
  const Row before = output;
  tree_sum({.inputs = inputs.data(),
            .input_dtype = c.input,
            .ranks = c.ranks,
            .count = c.count,
            .output = output.data(),
            .output_dtype = c.output,
            .options = c.options,
            .store = c.store,
            .instructions = c.instructions});
  for (size_t i = 0; i < c.count; ++i) {
    float wanted = bottom_up(rows, i, c.output);
    if (c.options.add_to_output) wanted = rounded(c.output, before.at(i) + wanted);
    if (c.options.scale != 1.0F) wanted = rounded(c.output, wanted * c.options.scale);
    ASSERT_TRUE(same(output.at(i), wanted))
        << name(c.input) << " to " << name(c.output) << ", " << c.ranks << " ranks, " << c.count << " values, "
        << device::name(c.instructions) << ", element " << i << " is " << output.at(i) << ", not " << wanted;
  }
  const auto unchanged = [&](size_t begin, size_t end) {
    begin *= output.width(), end *= output.width();
    return std::equal(output.bytes.begin() + static_cast<long>(begin), output.bytes.begin() + static_cast<long>(end),
                      before.bytes.begin() + static_cast<long>(begin));
  };
  ASSERT_TRUE(unchanged(0, output.first) && unchanged(output.first + c.count, c.count + 2 * Row::kMargin));
}

constexpr Dtype kFormats[] = {Dtype::fp32, Dtype::bf16};

class TreeSum : public testing::TestWithParam<device::Instructions> {};

TEST_P(TreeSum, equals_the_recursion_for_all_formats_ranks_and_sizes) {
  constexpr float kScales[] = {1.0F, 1.0F / 3, 0.25F, 1e-30F};
  constexpr size_t kCounts[] = {0, 1, 2, 15, 16, 17, 31, 33, 64, 101, 1023, 1024, 1025, 4096, 8193, 10007};
  std::mt19937_64 random(11);
  for (const Dtype input : kFormats) {
    for (const Dtype output : kFormats) {
      for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 33, 70}) {
        for (const size_t count : kCounts) {
          if (ranks > 9 && count > 1025) continue;
          const ReduceOptions options{.add_to_output = random() % 2 == 0, .scale = kScales[random() % 4]};
          const auto store = random() % 2 == 0 ? device::Store::kCached : device::Store::kStreaming;
          expect_equal_to_the_recursion({input, output, ranks, count, options, store, GetParam()}, random);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_P(TreeSum, may_write_onto_any_of_its_inputs) {
  std::mt19937_64 random(9);
  for (const Dtype dtype : kFormats) {
    for (const auto store : {device::Store::kCached, device::Store::kStreaming}) {
      for (size_t target = 0; target < 5; ++target) {
        std::vector<Row> rows;
        std::vector<const void*> inputs;
        for (size_t r = 0; r < 5; ++r) fill(rows.emplace_back(dtype, 9001, 3 * r), random);
        for (Row& row : rows) inputs.push_back(row.data());
        const std::vector<Row> before = rows;
        tree_sum({.inputs = inputs.data(),
                  .input_dtype = dtype,
                  .ranks = 5,
                  .count = 9001,
                  .output = rows[target].data(),
                  .output_dtype = dtype,
                  .store = store,
                  .instructions = GetParam()});
        for (size_t i = 0; i < 9001; ++i) ASSERT_EQ(rows[target].at(i), bottom_up(before, i, dtype)) << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(sets, TreeSum, testing::ValuesIn(device::supported_instructions()),
                         [](const auto& set) { return device::name(set.param); });

TEST(TreeSumOrder, another_one_would_show) {
  std::mt19937_64 random(1);
  for (const Dtype dtype : kFormats) {
    std::vector<Row> rows;
    for (size_t r = 0; r < 8; ++r) fill(rows.emplace_back(dtype, 1024, 0), random);
    size_t different = 0;
    for (size_t i = 0; i < 1024; ++i) {
      float from_left = rows[0].at(i);
      for (size_t r = 1; r < 8; ++r) from_left = rounded(dtype, from_left + rows[r].at(i));
      different += from_left != bottom_up(rows, i, dtype);
    }
    EXPECT_GT(different, 100U) << name(dtype);
  }
}

}  // namespace
}  // namespace reshard::comm
