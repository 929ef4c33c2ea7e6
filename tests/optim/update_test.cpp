// AdamW and SGD: the same bits for every instruction set, split, alignment and order of fragments; and the numbers of
// the formula, which a plain loop in fp64 repeats from torch.optim's documentation.

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "optim/adamw.h"
#include "optim/sgd.h"
#include "reshard/error.h"

namespace reshard::optim {
namespace {

using Make = std::unique_ptr<Optimizer> (*)(Instructions);

// One parameter's memory on a rank.
struct Tensors {
  Tensors() = default;
  Tensors(size_t count, size_t states, std::mt19937& random) : values(count), gradient(count), state(states) {
    std::normal_distribution<float> normal;
    for (size_t i = 0; i < count; ++i) {
      values[i] = normal(random);
      const int kind = static_cast<int>(random() % 8);
      gradient[i] = kind == 0 ? 0.0F : normal(random) * (kind == 1 ? 1e-30F : kind == 2 ? 1e15F : 0.01F);
    }
    for (auto& tensor : state) tensor.assign(count, 0.0F);
    for (auto& tensor : state)
      for (float& value : tensor) value = random() % 4 == 0 ? 1e-40F : std::abs(normal(random)) * 1e-3F;
  }
  std::vector<float> values, gradient;
  std::vector<std::vector<float>> state;
};

void update(const Optimizer& optimizer, Tensors& tensors, size_t offset, size_t length, const StepInfo& step,
            const ParameterGroup& group = {}) {
  std::vector<float*> state;
  for (auto& tensor : tensors.state) state.push_back(tensor.data() + offset);
  Fragment fragment;
  fragment.group = group;
  fragment.offset = static_cast<int64_t>(offset);
  fragment.length = static_cast<int64_t>(length);
  fragment.values = tensors.values.data() + offset;
  fragment.gradient = tensors.gradient.data() + offset;
  fragment.state = state;
  optimizer.update(fragment, step);
}

std::vector<uint32_t> bits(const Tensors& tensors) {
  std::vector<uint32_t> all;
  for (const float value : tensors.values) all.push_back(std::bit_cast<uint32_t>(value));
  for (const auto& tensor : tensors.state)
    for (const float value : tensor) all.push_back(std::bit_cast<uint32_t>(value));
  return all;
}

class EveryOptimizer : public testing::TestWithParam<std::pair<const char*, Make>> {};

TEST_P(EveryOptimizer, SplitsOrderAlignmentAndInstructionsPlayNoPart) {
  std::mt19937 random(5);
  const Make make = GetParam().second;
  const auto scalar = make(Instructions::scalar);
  for (int round = 0; round < 120; ++round) {
    const size_t count = round < 70 ? static_cast<size_t>(round) : 1 + random() % 3000;
    const Tensors start(count, scalar->state_names().size(), random);
    const StepInfo step{.step = 1 + static_cast<int64_t>(random() % 1000),
                        .lr = 1e-3 * static_cast<double>(1 + random() % 9),
                        .gradient_scale = random() % 2 == 0 ? 1.0F : 0.37F};
    Tensors whole = start;
    update(*scalar, whole, 0, count, step);
    for (const Instructions set : supported_instructions()) {
      const auto optimizer = make(set);
      Tensors split = start;
      std::vector<std::pair<size_t, size_t>> pieces;  // any cut at all, not at multiples of 64 only
      for (size_t at = 0; at < count;) {
        const size_t length = std::min(count - at, 1 + random() % 400);
        pieces.emplace_back(at, length);
        at += length;
      }
      std::shuffle(pieces.begin(), pieces.end(), random);
      for (const auto& [offset, length] : pieces) update(*optimizer, split, offset, length, step);
      ASSERT_EQ(bits(split), bits(whole)) << name(set) << ", round " << round << ", " << count << " elements";
    }
  }
}

TEST_P(EveryOptimizer, GroupsHaveTheirOwnRateAndDecay) {
  std::mt19937 random(9);
  const auto optimizer = GetParam().second(best_instructions());
  const Tensors start(100, optimizer->state_names().size(), random);
  Tensors scaled = start, plain = start, decayed = start, undecayed = start;
  update(*optimizer, scaled, 0, 100, {.step = 3, .lr = 0.01}, {.lr_scale = 0.5, .weight_decay = {}});
  update(*optimizer, plain, 0, 100, {.step = 3, .lr = 0.005});
  EXPECT_EQ(bits(scaled), bits(plain));
  update(*optimizer, decayed, 0, 100, {.step = 3, .lr = 0.01}, {.weight_decay = 0.25});
  update(*optimizer, undecayed, 0, 100, {.step = 3, .lr = 0.01}, {.weight_decay = 0.0});
  EXPECT_NE(bits(decayed), bits(undecayed));
  EXPECT_NE(bits(plain), bits(undecayed)) << "the optimizer's own decay holds where the group names none";
}

TEST_P(EveryOptimizer, LeavesTheFloatingPointStateAndEmptyFragmentsAlone) {
  std::mt19937 random(1);
  const auto optimizer = GetParam().second(best_instructions());
  Tensors tensors(5, optimizer->state_names().size(), random);
  const auto before = bits(tensors);
  update(*optimizer, tensors, 2, 0, {.step = 1, .lr = 1.0});
  EXPECT_EQ(bits(tensors), before);
  update(*optimizer, tensors, 0, 5, {.step = 1, .lr = 1.0});
  volatile float smallest_normal = 0x1p-126F;
  EXPECT_EQ(smallest_normal / 2, 0x1p-127F) << "subnormal numbers must be back";
}

// A state whose gradient is zero for good never stays among the subnormal numbers, where arithmetic is slow.
TEST_P(EveryOptimizer, IdleStateIsNeverSubnormal) {
  std::mt19937 random(2);
  for (const Instructions set : supported_instructions()) {
    const auto optimizer = GetParam().second(set);
    Tensors tensors(37, optimizer->state_names().size(), random);
    tensors.gradient.assign(37, 0.0F);
    for (auto& tensor : tensors.state) tensor.assign(37, 1e-36F);
    for (int64_t step = 1; step <= 200; ++step) {
      update(*optimizer, tensors, 0, 37, {.step = step, .lr = 1e-3}, {.weight_decay = 0.0});
      for (const auto& tensor : tensors.state)
        for (const float value : tensor) ASSERT_NE(std::fpclassify(value), FP_SUBNORMAL) << name(set) << " " << step;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Optimizers, EveryOptimizer,
    testing::Values(std::pair<const char*, Make>{"AdamW",
                                                 [](Instructions set) -> std::unique_ptr<Optimizer> {
                                                   return std::make_unique<AdamW>(
                                                       AdamWOptions{.beta1 = 0.9, .beta2 = 0.95}, set);
                                                 }},
                    std::pair<const char*, Make>{"Sgd",
                                                 [](Instructions set) -> std::unique_ptr<Optimizer> {
                                                   return std::make_unique<Sgd>(SgdOptions{.weight_decay = 0.1}, set);
                                                 }},
                    std::pair<const char*, Make>{"Momentum",
                                                 [](Instructions set) -> std::unique_ptr<Optimizer> {
                                                   return std::make_unique<Sgd>(
                                                       SgdOptions{.momentum = 0.9, .weight_decay = 0.1}, set);
                                                 }}),
    [](const auto& test) { return test.param.first; });

// The reference keeps its state in fp64 over 50 steps, so it shares nothing with the kernels but the meaning.
TEST(AdamW, FollowsTheFormulaOverManySteps) {
  std::mt19937 random(4);
  std::normal_distribution<float> normal;
  const AdamWOptions options{.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1};
  const AdamW optimizer(options);
  Tensors tensors(203, 2, random);
  for (auto& tensor : tensors.state) tensor.assign(203, 0.0F);
  std::vector<double> p(tensors.values.begin(), tensors.values.end()), m(203), v(203);
  for (int64_t step = 1; step <= 50; ++step) {
    for (float& gradient : tensors.gradient) gradient = 0.1F * normal(random);
    const double lr = 1e-2 / static_cast<double>(step);
    update(optimizer, tensors, 0, 203, {.step = step, .lr = lr, .gradient_scale = 0.5F});
    for (size_t i = 0; i < 203; ++i) {
      const double g = 0.5 * static_cast<double>(tensors.gradient[i]);
      m[i] = options.beta1 * m[i] + (1 - options.beta1) * g;
      v[i] = options.beta2 * v[i] + (1 - options.beta2) * g * g;
      const double mean = m[i] / (1 - std::pow(options.beta1, step)),
                   square = v[i] / (1 - std::pow(options.beta2, step));
      p[i] = p[i] * (1 - lr * options.weight_decay) - lr * mean / (std::sqrt(square) + options.eps);
    }
  }
  for (size_t i = 0; i < 203; ++i) {
    EXPECT_NEAR(static_cast<double>(tensors.values[i]), p[i], 2e-6) << i;
    EXPECT_NEAR(static_cast<double>(tensors.state[0][i]), m[i], 2e-8) << i;
    EXPECT_NEAR(static_cast<double>(tensors.state[1][i]), v[i], 1e-6 * v[i]) << i;
  }
}

// Without decay the first step moves each value by lr against the gradient's sign: the bias corrections cancel its
// size.
TEST(AdamW, TheFirstStepIsTheLearningRate) {
  Tensors tensors;
  tensors.values = {1.0F, 1.0F, 1.0F};
  tensors.gradient = {1e-3F, -20.0F, 0.0F};
  tensors.state = {{0, 0, 0}, {0, 0, 0}};
  update(AdamW({.weight_decay = 0.0}), tensors, 0, 3, {.step = 1, .lr = 0.125});
  EXPECT_NEAR(tensors.values[0], 0.875, 2e-6);
  EXPECT_NEAR(tensors.values[1], 1.125, 2e-7);
  EXPECT_EQ(tensors.values[2], 1.0F);
}

TEST(Sgd, FollowsTheFormulaByHand) {
  Tensors tensors;
  tensors.values = {1.0F};
  tensors.gradient = {0.5F};
  tensors.state = {{0.0F}};
  const Sgd momentum({.momentum = 0.5, .weight_decay = 0.25});
  update(momentum, tensors, 0, 1, {.step = 1, .lr = 0.5, .gradient_scale = 0.5F});  // g = 0.25 + 0.25
  EXPECT_EQ(tensors.state[0][0], 0.5F);
  EXPECT_EQ(tensors.values[0], 0.75F);
  update(momentum, tensors, 0, 1, {.step = 2, .lr = 0.5, .gradient_scale = 0.5F});  // b = 0.25 + 0.25 + 0.1875
  EXPECT_EQ(tensors.state[0][0], 0.6875F);
  EXPECT_EQ(tensors.values[0], 0.40625F);
  EXPECT_TRUE(Sgd({}).state_names().empty());
  EXPECT_EQ(momentum.state_names(), std::vector<std::string>{"momentum_buffer"});
}

std::string error_of(const auto& make) {
  try {
    make();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::config);
    return error.what();
  }
  return "no error";
}

TEST(Options, OutOfRangeIsAnError) {
  EXPECT_EQ(error_of([] { AdamW({.beta1 = 1.0}); }), "optimizer adamw: beta1 is 1 (give a number from 0 to below 1)");
  EXPECT_EQ(error_of([] { AdamW({.beta2 = -0.5}); }),
            "optimizer adamw: beta2 is -0.5 (give a number from 0 to below 1)");
  EXPECT_EQ(error_of([] { AdamW({.eps = NAN}); }), "optimizer adamw: eps is nan (give a number of at least 0)");
  EXPECT_EQ(error_of([] { AdamW({.weight_decay = HUGE_VAL}); }),
            "optimizer adamw: weight_decay is inf (give a number of at least 0)");
  EXPECT_EQ(error_of([] { Sgd({.momentum = 1.5}); }),
            "optimizer sgd: momentum is 1.5 (give a number from 0 to below 1)");
  EXPECT_EQ(error_of([] { Sgd({.weight_decay = -1}); }),
            "optimizer sgd: weight_decay is -1 (give a number of at least 0)");
  EXPECT_EQ(error_of([] { AdamW({.beta1 = 0, .beta2 = 0, .eps = 0, .weight_decay = 0}); }), "no error");
}

}  // namespace
}  // namespace reshard::optim
