// Memory that moves behind autograd's back: its aliases follow, a control shows what happens when they do not, and a
// parameter without memory is an error at every use.
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

#include "tests/examples/libtorch_training.h"

namespace reshard {
namespace {

// A block that notes where its weight lies in forward and in backward.
struct WatchedImpl : torch::nn::Module {
  WatchedImpl() : linear(register_module("linear", torch::nn::Linear(8, 8))) {}
  Tensor forward(const Tensor& x) {
    Tensor y = torch::tanh(linear->forward(x));
    in_forward = linear->weight.data_ptr();
    y.register_hook([this](const Tensor& gradient) {
      in_backward = linear->weight.data_ptr();
      return gradient;
    });
    return y;
  }
  torch::nn::Linear linear;
  void *in_forward = nullptr, *in_backward = nullptr;
};
TORCH_MODULE(Watched);

struct WatchedNetImpl : torch::nn::Module {
  WatchedNetImpl() {
    register_module("blocks", blocks);
    for (Watched& block : watched) blocks->push_back(block);
    scale = register_parameter("scale", torch::ones({8}));
    register_parameter("tied", scale);
  }
  Tensor forward(const Tensor& x) { return (blocks->forward(x * named_parameters()["tied"]) * scale).sum(); }

  Tensor scale;
  Watched watched[5];
  torch::nn::Sequential blocks;
};
TORCH_MODULE(WatchedNet);

TEST(LibTorch, GradientsAreRightAlthoughUnitsLieElsewhereInBackward) {
  const Job job = job_of({"zero3", 2, 1});
  Gradients gradients;
  const Tensor x = torch::linspace(-1, 1, 16).reshape({2, 8});
  std::mutex mutex;
  int moved = 0;
  Gradients expected;
  launch(job, [&](Rank& rank) {
    at::set_num_threads(1);
    WatchedNet net = nullptr;
    {
      const std::lock_guard lock(mutex);
      torch::manual_seed(3);
      net = WatchedNet();
      if (rank.first()) {
        net->forward(x).backward();
        for (const auto& [name, parameter] : net->named_parameters().pairs()) expected[name] = parameter.grad().clone();
      }
    }
    Runtime runtime(job, sharded::declare(*net, "blocks"), rank, std::make_unique<Noting>(gradients));
    sharded::Units units(*net, "blocks", runtime);
    runtime.begin_step();
    runtime.begin_micro_batch();
    const Tensor loss = units.forward([&] { return net->forward(x); });
    units.backward(loss);
    runtime.reduce();
    runtime.update(runtime.gradient_norm());
    runtime.end_step(loss.item<double>());
    const std::lock_guard lock(mutex);
    for (const Watched& block : net->watched) moved += block->in_forward != block->in_backward ? 1 : 0;
  });
  EXPECT_GT(moved, 0) << "this test shows nothing where no unit moves";
  EXPECT_EQ(gradients.size(), 11U) << "tied parameters are one";
  for (const auto& [name, gradient] : gradients)
    EXPECT_LE(largest(gradient - expected.at(name)), 1e-6 * (1 + largest(gradient))) << name;
}

// The gradient of a Linear's input, whose weight lies at one place in forward and at another in backward, with other
// numbers left at the first.
template <typename Move>
Tensor gradient_with_moved_weight(torch::nn::Linear& linear, const std::vector<float>& weight, Move&& move) {
  std::vector<float> first = weight, second = weight;
  Tensor x = torch::ones({2, 3}, torch::requires_grad());
  move(first.data());
  const Tensor loss = linear->forward(x).square().sum();
  std::fill(first.begin(), first.end(), 100.0F);
  move(second.data());
  loss.backward();
  return x.grad();
}

TEST(LibTorch, AutogradsAliasesFollowTheExchangedPointerAndNotANewTensor) {
  const auto make = [] { return torch::nn::Linear(torch::nn::LinearOptions(3, 4).bias(false)); };
  const std::vector<float> weight{0.1F, 0.2F, 0.3F, -0.4F, 0.5F, 0.6F, 0.7F, -0.8F, 0.9F, 1.0F, 1.1F, 1.2F};
  torch::nn::Linear still = make(), exchanged = make(), replaced = make();
  still->weight.data().copy_(torch::tensor(weight).reshape({4, 3}));
  const Tensor expected = gradient_with_moved_weight(still, weight, [](float*) {});

  sharded::UnitStorage storage({exchanged->weight});
  EXPECT_TRUE(torch::equal(
      gradient_with_moved_weight(exchanged, weight, [&](float* memory) { storage.point_at({memory}); }), expected));

  // The control: the parameter moves, and what autograd has saved of it does not. No error, and a wrong gradient.
  const Tensor wrong = gradient_with_moved_weight(replaced, weight, [&](float* memory) {
    replaced->weight.set_data(torch::from_blob(memory, {4, 3}));
  });
  EXPECT_GT(largest(wrong - expected), 10);
}

// ---- Loud failures

template <typename Use>
std::string error_of(Use&& use) {
  try {
    use();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(LibTorch, AParameterOutsideOfItsHooksIsAnErrorThatNamesIt) {
  const Job job = job_of({"zero3", 1, 1});
  launch(job, [&](Rank& rank) {
    Reverser net = make_net();
    Runtime runtime(job, sharded::declare(*net, "blocks"), rank, std::make_unique<sharded::Adam>(adam_options()));
    sharded::Units units(*net, "blocks", runtime);
    const auto parameters = net->named_parameters();
    const Tensor& inner = parameters["blocks.1.linear1.weight"];
    const std::string remedy = " (use it in its module's forward, or read it by Runtime::read or Runtime::whole)";
    EXPECT_EQ(error_of([&] { net->places.sum(); }),
              "parameter \"places\" is used by aten::sum outside of its unit's hooks" + remedy);
    for (int64_t s = 0; s < 2; ++s) {
      EXPECT_EQ(error_of([&] {
                  torch::mm(torch::ones({2, 64}), inner);
                }),
                "parameter \"blocks.1.linear1.weight\" is used by aten::mm outside of its unit's hooks" + remedy);
      EXPECT_EQ(error_of([&] {
                  torch::cat({torch::ones({2, 16}), inner});
                }),
                "parameter \"blocks.1.linear1.weight\" is used by aten::cat outside of its unit's hooks" + remedy);
      EXPECT_NE(error_of([&] { net->forward(rows_of(0)); }), "no error");
      step_of(runtime, units, net, s);
    }
    runtime.begin_step();
    runtime.begin_micro_batch();
    const Tensor loss = units.forward([&] { return reversal_loss(net, rows_of(2)); });
    EXPECT_THROW(loss.backward(), c10::Error) << "past Units::backward, so the root has no memory";
    runtime.abandon();
    runtime.evaluate([&] {  // another unit's hooks are not its own
      units.forward([&] {
        EXPECT_NE(error_of([&] { inner.mul(2); }), "no error");
        EXPECT_EQ(error_of([&] { net->places.mul(2); }), "no error");
        return Tensor();
      });
    });
  });
}

TEST(LibTorch, AFailedStepLeavesNoTraceInTheNextOne) {
  const Job job = job_of({"zero3", 1, 1});
  const Training undisturbed = run_sharded({"zero3", 1, 1}, 2);
  launch(job, [&](Rank& rank) {
    Reverser net = make_net();
    Gradients gradients;
    Runtime runtime(job, sharded::declare(*net, "blocks"), rank, std::make_unique<Noting>(gradients));
    sharded::Units units(*net, "blocks", runtime);
    EXPECT_EQ(step_of(runtime, units, net, 0), undisturbed.losses[0]);
    for (const bool in_backward : {false, true}) {
      runtime.begin_step();
      runtime.begin_micro_batch();
      const auto fail = [](const Tensor&) -> Tensor { throw std::runtime_error("the program's own"); };
      EXPECT_THROW(
          {
            const Tensor loss = units.forward([&] {
              Tensor logits = net->forward(rows_of(1));
              if (!in_backward) fail(logits);
              logits.register_hook(fail);
              return logits.sum();
            });
            units.backward(loss);
          },
          std::runtime_error);
    }
    EXPECT_EQ(step_of(runtime, units, net, 1), undisturbed.losses[1]);
    for (const auto& [name, gradient] : undisturbed.gradients)
      EXPECT_TRUE(torch::equal(gradients.at(name), gradient)) << name;
  });
}

}  // namespace
}  // namespace reshard
