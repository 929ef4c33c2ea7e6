// tree_sum adds in the promised order for any number of rows, on whatever instruction set it chose: bit-equal to a
// recursion written here from the words "pairs of neighbours, bottom up, an odd one passing up". It may write onto one
// of its inputs.

#include "comm/local/reduce.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <vector>

namespace reshard::comm {
namespace {

std::vector<std::vector<float>> random_rows(int rows, size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::vector<float>> all(static_cast<size_t>(rows), std::vector<float>(count));
  for (auto& row : all) {
    for (float& x : row)
      x = std::ldexp(static_cast<float>(random() % 65536) - 32768.0F, static_cast<int>(random() % 40) - 20);
  }
  return all;
}

float bottom_up(const std::vector<std::vector<float>>& rows, size_t i) {
  std::vector<float> terms;
  for (const auto& row : rows) terms.push_back(row[i]);
  while (terms.size() > 1) {
    std::vector<float> pairs;
    for (size_t t = 0; t + 1 < terms.size(); t += 2) pairs.push_back(terms[t] + terms[t + 1]);
    if (terms.size() % 2 != 0) pairs.push_back(terms.back());
    terms.swap(pairs);
  }
  return terms[0];
}

TEST(TreeSum, keeps_its_order_for_any_number_of_rows) {
  for (int rows = 1; rows <= 70; rows += rows < 20 ? 1 : 7) {
    for (const size_t count : {size_t{1}, size_t{17}, size_t{1024}, size_t{2051}}) {
      const auto values = random_rows(rows, count, static_cast<uint64_t>(rows) * 10 + count);
      std::vector<const float*> inputs;
      for (const auto& row : values) inputs.push_back(row.data());
      std::vector<float> output(count, 3.5F);
      tree_sum(inputs.data(), rows, count, output.data(), {.add_to_output = true, .scale = 0.3F},
               device::Store::kCached);
      for (size_t i = 0; i < count; ++i) {
        const float wanted = (3.5F + bottom_up(values, i)) * 0.3F;
        ASSERT_EQ(std::bit_cast<uint32_t>(output[i]), std::bit_cast<uint32_t>(wanted))
            << rows << " rows, element " << i;
      }
    }
  }
}

TEST(TreeSum, another_order_would_show) {
  const auto values = random_rows(8, 1024, 1);
  size_t different = 0;
  for (size_t i = 0; i < 1024; ++i) {
    float from_left = values[0][i];
    for (size_t r = 1; r < 8; ++r) from_left += values[r][i];
    different += from_left != bottom_up(values, i);
  }
  EXPECT_GT(different, 100U);
}

TEST(TreeSum, may_write_onto_any_of_its_inputs) {
  for (const auto store : {device::Store::kCached, device::Store::kStreaming}) {
    for (size_t target = 0; target < 5; ++target) {
      auto values = random_rows(5, 3001, 9);
      std::vector<float> wanted(3001);
      for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = bottom_up(values, i);
      std::vector<const float*> inputs;
      for (const auto& row : values) inputs.push_back(row.data());
      tree_sum(inputs.data(), 5, wanted.size(), values[target].data(), {}, store);
      EXPECT_EQ(values[target], wanted);
    }
  }
}

}  // namespace
}  // namespace reshard::comm
