// The GPT example's network against others' word: PyTorch's gradients (tests/golden), a plain
// double-precision loss and its central differences for odd sizes, and itself at other addresses and beside other
// threads.

#include <cmath>
#include <cstring>
#include <fstream>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "examples/gpt/random.h"
#include "tests/examples/gpt_reference.h"
#include "tests/examples/gpt_single.h"

namespace gpt {
namespace {

double difference(std::span<const float> got, std::span<const float> wanted) {
  double off = 0, size = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double delta = static_cast<double>(got[i]) - static_cast<double>(wanted[i]);
    off += delta * delta;
    size += static_cast<double>(wanted[i]) * static_cast<double>(wanted[i]);
  }
  return std::sqrt(off / size);
}

std::vector<float> tensor(const Safetensors& file, const std::string& name) {
  const Safetensors::Tensor& there = file.tensors().at(name);
  std::vector<float> values(static_cast<size_t>((there.end - there.begin) / 4));
  file.read(there, 0, std::span(values));
  return values;
}

// One golden run: its files, its model and its tokens.
struct Golden {
  explicit Golden(bool tied)
      : folder(std::string(RESHARD_SOURCE_DIR) + "/tests/golden/gpt/" + (tied ? "tied/" : "untied/")),
        run(nlohmann::json::parse(std::ifstream(folder + "run.json"))) {
    const nlohmann::json& m = run["model"];
    shape = {.layers = m["layers"],
             .width = m["width"],
             .heads = m["heads"],
             .sequence = m["sequence"],
             .vocabulary = m["vocabulary"],
             .tied = m["tied"]};
    batch = run["batch"];
    const Safetensors file(folder + "tokens.safetensors");
    tokens.resize(static_cast<size_t>(run["steps"].size()) * static_cast<size_t>(batch * (shape.sequence + 1)));
    file.read(file.tensors().at("tokens"), 0, std::span(tokens));
  }

  // Sequences [first, first + count) of a step: inputs and targets, each [count, sequence].
  void take(int step, int first, int count, std::vector<int32_t>& inputs, std::vector<int32_t>& targets) const {
    inputs.clear();
    targets.clear();
    const int row = shape.sequence + 1;
    for (int s = first; s < first + count; ++s) {
      const auto from = tokens.begin() + (static_cast<std::ptrdiff_t>(step) * batch + s) * row;
      inputs.insert(inputs.end(), from, from + shape.sequence);
      targets.insert(targets.end(), from + 1, from + row);
    }
  }

  void load(const SingleProcess& net) const {
    const Safetensors file(folder + "parameters.safetensors");
    check_parameters(file, net.model());
    for (const std::string& name : net.names()) file.read(file.tensors().at(name), 0, net.values(name));
  }

  std::string folder;
  nlohmann::json run;
  Shape shape;
  int batch = 0;
  std::vector<int32_t> tokens;
};

// The whole batch's mean loss and gradients, computed in `parts` equal micro-batches.
double whole_batch(const Golden& golden, SingleProcess& net, int step, int parts) {
  std::vector<int32_t> inputs, targets;
  const int count = golden.batch / parts;
  double loss = 0;
  for (const std::string& name : net.names()) std::ranges::fill(net.gradients(name), 0.0F);
  for (int part = 0; part < parts; ++part) {
    golden.take(step, part * count, count, inputs, targets);
    loss += net.pass(inputs.data(), targets.data()) / parts;
  }
  for (const std::string& name : net.names()) {
    for (float& g : net.gradients(name)) g /= static_cast<float>(parts);
  }
  return loss;
}

class WithPytorch : public testing::TestWithParam<bool> {};

TEST_P(WithPytorch, GradientsAgreeHoweverTheBatchIsCut) {
  const Golden golden(GetParam());
  const Safetensors wanted(golden.folder + "gradients.safetensors");
  for (const int parts : {1, 3, 8}) {
    SingleProcess net(golden.shape, {golden.batch / parts, golden.shape.sequence});
    golden.load(net);
    const double loss = whole_batch(golden, net, 0, parts);
    const double there = golden.run["steps"][0]["loss"];
    EXPECT_LE(std::abs(loss - there), 1e-5 * there);
    for (const std::string& name : net.names()) {
      EXPECT_LE(difference(net.gradients(name), tensor(wanted, name)), 1e-5) << name << " in " << parts << " parts";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(TiedAndUntied, WithPytorch, testing::Bool());

// Random tokens and parameters away from their initial 0 and 1.
struct Sample {
  std::vector<int32_t> inputs, targets;
};

Sample randomize(const Shape& shape, Batch batch, const SingleProcess& net) {
  for (const std::string& name : net.names()) {
    const bool gain = name.find("ln_") != std::string::npos && name.ends_with("weight");
    for (size_t i = 0; i < net.values(name).size(); ++i) {
      net.values(name)[i] = static_cast<float>((gain ? 1 : 0) + 0.3 * random_normal(5, stream_of(name), i));
    }
  }
  Sample sample;
  for (uint64_t i = 0; i < static_cast<uint64_t>(batch.tokens()); ++i) {
    sample.inputs.push_back(static_cast<int32_t>(random_bits(5, 1, i) % static_cast<uint64_t>(shape.vocabulary)));
    sample.targets.push_back(static_cast<int32_t>(random_bits(5, 2, i) % static_cast<uint64_t>(shape.vocabulary)));
  }
  return sample;
}

struct Case {
  Shape shape;
  Batch batch;
};

class OddSizes : public testing::TestWithParam<Case> {};

TEST_P(OddSizes, GradientsAreTheLossesDifferences) {
  const auto& [shape, batch] = GetParam();
  SingleProcess net(shape, batch);
  const Sample sample = randomize(shape, batch, net);
  const double loss = net.pass(sample.inputs.data(), sample.targets.data());

  const Reference reference(shape, batch);
  Tensors w;
  for (const std::string& name : net.names()) w[name].assign(net.values(name).begin(), net.values(name).end());
  const double wanted = reference.loss(w, sample.inputs.data(), sample.targets.data());
  EXPECT_NEAR(loss, wanted, 2e-6 * wanted);

  double size = 0, off = 0;
  for (const std::string& name : net.names()) {
    // Some elements of each tensor, spread evenly.
    const size_t stride = std::max<size_t>(1, w[name].size() / 20);
    for (size_t i = 0; i < w[name].size(); i += stride) {
      const double was = w[name][i], step = 1e-5;
      w[name][i] = was + step;
      const double above = reference.loss(w, sample.inputs.data(), sample.targets.data());
      w[name][i] = was - step;
      const double below = reference.loss(w, sample.inputs.data(), sample.targets.data());
      w[name][i] = was;
      const double slope = (above - below) / (2 * step);
      const double delta = static_cast<double>(net.gradients(name)[i]) - slope;
      EXPECT_LE(std::abs(delta), 2e-5 * (std::abs(slope) + 0.05)) << name << "[" << i << "]";
      size += slope * slope;
      off += delta * delta;
    }
  }
  EXPECT_LE(std::sqrt(off / size), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, OddSizes,
    testing::Values(
        Case{{.layers = 1, .width = 1, .heads = 1, .sequence = 1, .vocabulary = 2, .tied = true}, {1, 1}},
        Case{{.layers = 2, .width = 6, .heads = 3, .sequence = 5, .vocabulary = 7, .tied = true}, {3, 5}},
        Case{{.layers = 2, .width = 15, .heads = 3, .sequence = 9, .vocabulary = 11, .tied = false}, {2, 7}},
        Case{{.layers = 1, .width = 35, .heads = 5, .sequence = 8, .vocabulary = 33, .tied = false}, {1, 8}},
        Case{{.layers = 1, .width = 4, .heads = 2, .sequence = 140, .vocabulary = 5, .tied = true}, {1, 131}}));

// Every gradient and the loss, as bytes in one row.
std::vector<float> bits_of_pass(const Shape& shape, Batch batch, int64_t skew) {
  SingleProcess net(shape, batch, skew);
  const Sample sample = randomize(shape, batch, net);
  const double loss = net.pass(sample.inputs.data(), sample.targets.data());
  std::vector<float> all = {static_cast<float>(loss),
                            static_cast<float>(loss - static_cast<double>(static_cast<float>(loss)))};
  for (const std::string& name : net.names())
    all.insert(all.end(), net.gradients(name).begin(), net.gradients(name).end());
  return all;
}

TEST(Bits, AreTheSameAtEveryAddressAndBesideOtherThreads) {
  const Shape shape = {.layers = 2, .width = 96, .heads = 4, .sequence = 80, .vocabulary = 256, .tied = true};
  const Batch batch = {3, 80};
  const std::vector<float> alone = bits_of_pass(shape, batch, 0);
  std::vector<std::vector<float>> results(4);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < results.size(); ++i) {
    threads.emplace_back([&, i] { results[i] = bits_of_pass(shape, batch, static_cast<int64_t>(16 * i)); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<float>& result : results) {
    ASSERT_EQ(result.size(), alone.size());
    EXPECT_EQ(std::memcmp(result.data(), alone.data(), alone.size() * sizeof(float)), 0);
  }
}

TEST(Bits, InitialValuesDoNotDependOnHowTheyAreAskedFor) {
  const Shape shape;
  std::vector<float> whole(1000), parts(1000);
  initial_values(shape, 7, "h.1.mlp.c_proj.weight", 5000, whole);
  for (size_t at = 0; at < parts.size(); at += 125) {
    initial_values(shape, 7, "h.1.mlp.c_proj.weight", 5000 + static_cast<int64_t>(at),
                   std::span(parts).subspan(at, 125));
  }
  EXPECT_EQ(whole, parts);

  double square = 0;
  std::vector<float> many(100000);
  initial_values(shape, 7, "h.1.mlp.c_proj.weight", 0, many);
  for (const float v : many) square += static_cast<double>(v) * static_cast<double>(v);
  EXPECT_NEAR(std::sqrt(square / static_cast<double>(many.size())), 0.02 / std::sqrt(2.0 * shape.layers), 1e-4);
}

}  // namespace
}  // namespace gpt
