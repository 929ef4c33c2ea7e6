// torch::nn on Reshard's shards: gradients and losses equal those of plain LibTorch in one process, to the bit on one
// rank; autograd's aliases follow a unit's memory, and a control shows what happens when they do not; a parameter without
// memory is an error at every use.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <ATen/Parallel.h>

#include "adam.h"
#include "reverser.h"
#include "units.h"

namespace reshard {
namespace {

using torch::Tensor;
using Gradients = std::map<std::string, Tensor>;

constexpr ReverserOptions kSmall{.length = 5, .width = 16, .layers = 3, .heads = 2};
constexpr int64_t kRows = 24;  // of a step, over all ranks and micro-batches

struct Case {
  std::string strategy;
  int ranks = 1, microbatches = 1;
  bool frozen = false;  // the first block and the places
};
void PrintTo(const Case& one, std::ostream* out) {
  *out << one.strategy << " ranks " << one.ranks << " micro-batches " << one.microbatches << (one.frozen ? " frozen" : "");
}

Job job_of(const Case& one) {
  Job job;
  job.strategy.plugin = std::string(RESHARD_BINARY_DIR) + "/plugins/" + one.strategy + ".so";
  job.mesh.ranks = one.ranks;
  job.mesh.timeout = 20;
  job.train.microbatches = one.microbatches;
  job.optimizer.name = "program";
  job.optimizer.lr = 1e-2;
  return job;
}

Reverser make_net(bool frozen = false) {
  static std::mutex one_by_one;  // the generator is one for all threads
  const std::lock_guard lock(one_by_one);
  torch::manual_seed(7);
  Reverser net(kSmall);
  if (frozen) {
    net->places.set_requires_grad(false);
    for (Tensor& parameter : net->named_children()["blocks"]->named_children()["0"]->parameters())
      parameter.set_requires_grad(false);
  }
  return net;
}

// The rows of one micro-batch of one rank; without ranks and micro-batches, of the whole step.
Tensor rows_of(int64_t step, int64_t part = 0, int64_t parts = 1) {
  const int64_t length = kRows / parts;
  return rows_of_digits(100 + step, kRows, kSmall.length).narrow(0, part * length, length);
}

torch::optim::AdamOptions adam_options() {
  return torch::optim::AdamOptions(1e-2).betas({0.9, 0.95}).weight_decay(0.01);
}

// Notes the gradients it is given, of all ranks, and trains with Adam.
class Noting : public sharded::Adam {
 public:
  explicit Noting(Gradients& gradients) : Adam(adam_options()), gradients_(gradients) {}
  void update(const Fragment& fragment, const StepInfo& step) const override {
    {
      const std::lock_guard lock(mutex());
      Tensor& whole = gradients_[std::string(fragment.name)];
      if (!whole.defined()) whole = torch::full(at::IntArrayRef(fragment.shape.data(), fragment.shape.size()), NAN);
      std::copy_n(fragment.gradient, fragment.length, whole.data_ptr<float>() + fragment.offset);
    }
    Adam::update(fragment, step);
  }

 private:
  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }
  Gradients& gradients_;
};

struct Training {
  std::vector<double> losses;
  Gradients gradients;  // of the last step
  std::map<std::string, std::vector<float>> parameters;
};

double step_of(Runtime& runtime, sharded::Units& units, Reverser& net, int64_t step) {
  const int ranks = runtime.rank().count(), microbatches = runtime.job().train.microbatches;
  double loss_sum = 0;
  runtime.begin_step();
  for (int m = 0; m < microbatches; ++m) {
    runtime.begin_micro_batch();
    const Tensor rows = rows_of(step, m * ranks + runtime.rank().index(), int64_t{ranks} * microbatches);
    const Tensor loss = units.forward([&] { return reversal_loss(net, rows); });
    units.backward(loss);
    loss_sum += loss.item<double>();
  }
  runtime.reduce();
  runtime.update(runtime.gradient_norm());
  return runtime.end_step(loss_sum).loss;
}

Training run_sharded(const Case& one, int64_t steps) {
  const Job job = job_of(one);
  Training run;
  launch(job, [&](Rank& rank) {
    at::set_num_threads(1);
    Reverser net = make_net(one.frozen);
    Runtime runtime(job, sharded::declare(*net, "blocks"), rank, std::make_unique<Noting>(run.gradients));
    sharded::Units units(*net, "blocks", runtime);
    for (int64_t s = 0; s < steps; ++s) {
      const double loss = step_of(runtime, units, net, s);
      if (rank.first()) run.losses.push_back(loss);
    }
    for (const UnitSpec& unit : runtime.model().units())
      for (const Parameter& parameter : unit.parameters) {
        std::vector<float> values = runtime.read(parameter.name);
        if (rank.first()) run.parameters[parameter.name] = std::move(values);
      }
  });
  return run;
}

// The same without Reshard: one process, the parts of the batch one after the other.
Training run_plain(int64_t steps, int64_t parts, bool frozen) {
  at::set_num_threads(1);
  Reverser net = make_net(frozen);
  torch::optim::Adam adam(net->parameters(), adam_options());
  Training run;
  for (int64_t s = 0; s < steps; ++s) {
    adam.zero_grad();
    double loss_sum = 0;
    for (int64_t part = 0; part < parts; ++part) {
      const Tensor loss = reversal_loss(net, rows_of(s, part, parts));
      (loss / parts).backward();
      loss_sum += loss.item<double>();
    }
    adam.step();
    run.losses.push_back(loss_sum / static_cast<double>(parts));
  }
  for (const auto& [name, parameter] : net->named_parameters().pairs()) {
    if (parameter.requires_grad()) run.gradients[name] = parameter.grad();
    run.parameters[name] = {parameter.data_ptr<float>(), parameter.data_ptr<float>() + parameter.numel()};
  }
  return run;
}

double largest(const Tensor& tensor) {
  return tensor.abs().max().item<double>();
}

class Strategies : public testing::TestWithParam<Case> {};

TEST_P(Strategies, GradientsArePlainLibTorchs) {
  const Case& one = GetParam();
  const Training sharded = run_sharded(one, 1);
  const Training plain = run_plain(1, one.ranks == 1 ? one.microbatches : 1, one.frozen);
  ASSERT_EQ(sharded.gradients.size(), plain.gradients.size());
  for (const auto& [name, expected] : plain.gradients) {
    const Tensor& gradient = sharded.gradients.at(name);
    ASSERT_GT(largest(expected), 0) << name;
    if (one.ranks == 1)
      EXPECT_TRUE(torch::equal(gradient, expected)) << name;
    else
      EXPECT_LE(largest(gradient - expected), 2e-6 * (1 + largest(expected))) << name;
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* strategy : {"zero3", "zero2", "zero1", "replicate", "root_no_reshard"})
    for (const int ranks : {1, 2, 4})
      for (const int microbatches : {1, 2}) all.push_back({strategy, ranks, microbatches});
  for (const char* strategy : {"zero3", "zero1"})
    for (const int ranks : {1, 2}) all.push_back({strategy, ranks, 2, true});
  return all;
}
INSTANTIATE_TEST_SUITE_P(All, Strategies, testing::ValuesIn(cases()));

TEST(LibTorch, TwentyStepsAreAPlainTrainingToTheBitOnOneRank) {
  const Training sharded = run_sharded({"zero3", 1, 1}, 20), plain = run_plain(20, 1, false);
  EXPECT_LT(plain.losses.back(), 0.97 * plain.losses.front());
  EXPECT_EQ(sharded.losses, plain.losses);
  EXPECT_EQ(sharded.parameters, plain.parameters);
}

TEST(LibTorch, TwentyStepsOfTwoRanksAreAPlainTrainingToRounding) {
  const Training sharded = run_sharded({"zero3", 2, 2}, 20), plain = run_plain(20, 1, false);
  ASSERT_EQ(sharded.losses.size(), 20U);
  for (std::size_t s = 0; s < 20; ++s) EXPECT_NEAR(sharded.losses[s], plain.losses[s], 1e-4) << "step " << s;
}

TEST(LibTorch, AForwardOnlyPassLeavesTrainingAsItIs) {
  const Job job = job_of({"zero3", 2, 1});
  const Training undisturbed = run_sharded({"zero3", 2, 1}, 3);
  launch(job, [&](Rank& rank) {
    at::set_num_threads(1);
    Reverser net = make_net();
    Gradients unused;
    Runtime runtime(job, sharded::declare(*net, "blocks"), rank, std::make_unique<sharded::Adam>(adam_options()));
    sharded::Units units(*net, "blocks", runtime);
    for (int64_t s = 0; s < 3; ++s) {
      double loss = 0;
      runtime.evaluate([&] {
        const torch::NoGradGuard forward_only;
        loss = units.forward([&] { return reversal_loss(net, rows_of(s, rank.index(), 2)); }).item<double>();
      });
      const std::vector<double> losses = rank.exchange(loss);
      const double trained = step_of(runtime, units, net, s);
      EXPECT_EQ(trained, undisturbed.losses[static_cast<std::size_t>(s)]);
      EXPECT_NEAR((losses[0] + losses[1]) / 2, trained, 1e-6);
    }
  });
}

// ---- Memory that moves

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
  }
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
        net->blocks->forward(x).sum().backward();
        for (const auto& [name, parameter] : net->named_parameters().pairs()) expected[name] = parameter.grad().clone();
      }
    }
    Runtime runtime(job, sharded::declare(*net, "blocks"), rank, std::make_unique<Noting>(gradients));
    sharded::Units units(*net, "blocks", runtime);
    runtime.begin_step();
    runtime.begin_micro_batch();
    const Tensor loss = units.forward([&] { return net->blocks->forward(x).sum(); });
    units.backward(loss);
    runtime.reduce();
    runtime.update(runtime.gradient_norm());
    runtime.end_step(loss.item<double>());
    const std::lock_guard lock(mutex);
    for (const Watched& block : net->watched) moved += block->in_forward != block->in_backward ? 1 : 0;
  });
  EXPECT_GT(moved, 0) << "this test shows nothing where no unit moves";
  for (const auto& [name, gradient] : expected)
    EXPECT_LE(largest(gradients.at(name) - gradient), 1e-6 * (1 + largest(gradient))) << name;
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
  const Tensor wrong = gradient_with_moved_weight(
      replaced, weight, [&](float* memory) { replaced->weight.set_data(torch::from_blob(memory, {4, 3})); });
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
      EXPECT_EQ(error_of([&] { torch::mm(torch::ones({2, 64}), inner); }),
                "parameter \"blocks.1.linear1.weight\" is used by aten::mm outside of its unit's hooks" + remedy);
      EXPECT_EQ(error_of([&] { torch::cat({torch::ones({2, 16}), inner}); }),
                "parameter \"blocks.1.linear1.weight\" is used by aten::cat outside of its unit's hooks" + remedy);
      EXPECT_NE(error_of([&] { net->forward(rows_of(0)); }), "no error");
      step_of(runtime, units, net, s);
    }
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
    for (const auto& [name, gradient] : undisturbed.gradients) EXPECT_TRUE(torch::equal(gradients.at(name), gradient)) << name;
  });
}

}  // namespace
}  // namespace reshard
