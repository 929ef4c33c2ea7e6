// The products of linear layers whose weights are bf16: those of the rounded operands, summed in fp32.

#include <cmath>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "examples/gpt/products.h"

namespace gpt {
namespace {

using reshard::Bf16;

std::vector<float> random_values(int64_t count, uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(engine);
  return values;
}

std::vector<Bf16> narrow(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

std::vector<float> wide(const std::vector<Bf16>& values) {
  std::vector<float> out;
  for (const Bf16 value : values) out.push_back(static_cast<float>(value));
  return out;
}

std::vector<float> rounded(const std::vector<float>& values) {
  return wide(narrow(values));
}

// Sums of the same numbers in another order.
void expect_near(const std::vector<float>& got, const std::vector<float>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], wanted[i], 2e-4 * (1 + std::fabs(wanted[i]))) << "element " << i;
}

struct Results {
  std::vector<float> y, y_added, dx, dw;
  bool operator==(const Results&) const = default;
};

struct Layer {
  int rows, in, out;
  bool turned;

  Results of(Weights weights, const std::vector<float>& x, const std::vector<float>& dy) const {
    std::vector<Bf16> memory(static_cast<std::size_t>(Linear::rounded_values(rows, in, out)));
    const Linear layer{rows, in, out, weights, memory.data(), turned};
    Results results{std::vector<float>(dy.size(), 7), std::vector<float>(dy.size(), 7), std::vector<float>(x.size(), 7),
                    std::vector<float>(static_cast<std::size_t>(in * out), 7)};
    linear(layer, x.data(), results.y.data(), false);
    linear(layer, x.data(), results.y_added.data(), true);
    linear_input_gradient(layer, dy.data(), results.dx.data());
    add_weight_gradient(layer, x.data(), dy.data(), results.dw.data());
    return results;
  }
};

class Bf16Products : public testing::TestWithParam<Layer> {
 protected:
  void SetUp() override {
    if (!multiplies_bf16()) GTEST_SKIP() << "this processor or this build does not multiply bf16";
  }
};

TEST_P(Bf16Products, AreThoseOfTheRoundedOperands) {
  const Layer c = GetParam();
  const std::vector<float> x = random_values(int64_t{c.rows} * c.in, 1), dy = random_values(int64_t{c.rows} * c.out, 2);
  const std::vector<Bf16> weights = narrow(random_values(int64_t{c.in} * c.out, 3));
  const std::vector<float> widened = wide(weights);
  const Results got = c.of(weights.data(), x, dy), wanted = c.of(widened.data(), rounded(x), rounded(dy));
  expect_near(got.y, wanted.y);
  expect_near(got.y_added, wanted.y_added);
  expect_near(got.dx, wanted.dx);
  expect_near(got.dw, wanted.dw);
  EXPECT_NE(got.y, c.of(widened.data(), x, dy).y) << "nothing was rounded";
}

TEST_P(Bf16Products, AreTheSameBitsOnEveryThread) {
  const Layer c = GetParam();
  const std::vector<float> x = random_values(int64_t{c.rows} * c.in, 1), dy = random_values(int64_t{c.rows} * c.out, 2);
  const std::vector<Bf16> weights = narrow(random_values(int64_t{c.in} * c.out, 3));
  std::vector<Results> results(4);
  std::vector<std::thread> threads;
  for (Results& mine : results)
    threads.emplace_back([&] {
      for (int round = 0; round < 3; ++round) mine = c.of(weights.data(), x, dy);
    });
  for (std::thread& thread : threads) thread.join();
  for (const Results& other : results) EXPECT_TRUE(other == results[0]);
}

INSTANTIATE_TEST_SUITE_P(Shapes, Bf16Products,
                         testing::Values(Layer{1, 1, 1, false}, Layer{1, 64, 256, true}, Layer{3, 5, 7, false},
                                         Layer{17, 33, 65, true}, Layer{64, 96, 384, false}, Layer{128, 384, 256, true}));

}  // namespace
}  // namespace gpt
