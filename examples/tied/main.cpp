// Tied weights: one matrix embeds the tokens and scores them. It lies in one unit, under two names, and its gradient is
// the sum of both uses. The same network with two matrices of equal values shows that.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string_view>

#include "reshard/error.h"
#include "reshard/runtime.h"
#include "reshard/text.h"

using namespace reshard;

static constexpr int64_t kTokens = 32, kWidth = 16;
static constexpr int kSteps = 200;
static constexpr double kRate = 0.5;

static float noise(int64_t seed, int64_t place) {
  return std::sin(static_cast<float>((place * 7919 + seed * 104729) % 9973));
}

static Parameter output_weight(bool tied) {
  return {.name = "output.weight", .shape = {kTokens, kWidth}, .same_as = tied ? "embedding.weight" : ""};
}
static Model network(bool tied) {
  Model model({.name = "ends", .parameters = {{"embedding.weight", {kTokens, kWidth}}, output_weight(tied)}});
  model.add({.name = "middle", .parameters = {{"middle.weight", {kWidth}}}});
  model.compute_only_in(Dtype::fp32);
  return model;
}

// x = embedding[token]; h = middle · x, element by element; the loss is the cross-entropy of h · outputᵀ.
static double micro_batch(Runtime& runtime, MicroBatch at) {
  const int64_t row = (at.step * at.count + at.index) * runtime.rank().count() + runtime.rank().index();
  const int64_t token = row * 5 % kTokens, target = kTokens - 1 - token;
  std::array<float, kWidth> x, h, dh{};
  std::array<float, kTokens> scores{};
  float sum = 0;
  runtime.forward(kRoot, [&](const View& ends) {
    std::copy_n(&ends.parameter(0)[token * kWidth], kWidth, x.data());
    runtime.forward(Unit{1}, [&](const View& middle) {
      for (int64_t i = 0; i < kWidth; ++i) h[i] = middle.parameter(0)[i] * x[i];
    });
    const std::span<const float> output = ends.parameter(1);
    for (int64_t k = 0; k < kTokens * kWidth; ++k) scores[k / kWidth] += h[k % kWidth] * output[k];
    for (float& score : scores) sum += score = std::exp(score);
  });
  const double loss = -std::log(scores[target] / sum);
  for (int64_t v = 0; v < kTokens; ++v) scores[v] = scores[v] / sum - (v == target ? 1.0F : 0.0F);
  runtime.backward(kRoot, [&](const View& ends) {
    const std::span<const float> output = ends.parameter(1);
    const std::span<float> output_gradient = ends.gradient(1);
    for (int64_t k = 0; k < kTokens * kWidth; ++k) {
      dh[k % kWidth] += scores[k / kWidth] * output[k];
      output_gradient[k] += scores[k / kWidth] * h[k % kWidth];  // the use as output
    }
    runtime.backward(Unit{1}, [&](const View& middle) {
      for (int64_t i = 0; i < kWidth; ++i) {
        middle.gradient(0)[i] += dh[i] * x[i];
        dh[i] *= middle.parameter(0)[i];
      }
    });
    for (int64_t i = 0; i < kWidth; ++i) ends.gradient(0)[token * kWidth + i] += dh[i];  // the use as embedding
  });
  return loss;
}

using Vector = std::vector<float>;
struct Outcome {
  Vector embedding, output;  // gradients of the first step
  double first = 0, last = 0;
  Report report;
  bool one_matrix = false;
};
static Outcome train(const Job& job, bool tied) {
  Outcome outcome;
  const Model model = network(tied);
  launch(job, [&](Rank& rank) {
    Runtime runtime(job, model, rank);
    runtime.fill([](std::string_view name, int64_t offset, std::span<float> values) {
      const int64_t seed = name == "middle.weight" ? 2 : 1;  // both ends alike
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = 0.5F * noise(seed, offset + static_cast<int64_t>(i));
    });
    const auto step = [&] { return runtime.step([&](MicroBatch at) { return micro_batch(runtime, at); }).loss; };
    Outcome mine{runtime.read("embedding.weight"), runtime.read("output.weight"), step(), 0, {}, false};
    const auto gradient = [&](Vector& before, const Vector& after) {  // plain SGD: the update over the learning rate
      for (std::size_t i = 0; i < before.size(); ++i) before[i] = (before[i] - after[i]) / static_cast<float>(kRate);
    };
    gradient(mine.embedding, runtime.read("embedding.weight"));
    gradient(mine.output, runtime.read("output.weight"));
    for (int s = 1; s < kSteps; ++s) mine.last = step();
    mine.report = runtime.report();
    mine.one_matrix = runtime.read("embedding.weight") == runtime.read("output.weight");
    if (rank.first()) outcome = std::move(mine);
  });
  return outcome;
}
static float largest(const Vector& values) {
  float most = 0;
  for (const float value : values) most = std::max(most, std::abs(value));
  return most;
}

int main(int argc, char** argv) try {
  if (argc != 1 && (argc != 3 || std::string_view(argv[1]) != "--strategy"))
    return std::fputs("usage: tied [--strategy NAME]\n", stderr), 2;
  Job job;
  job.strategy.plugin = argc == 3 ? argv[2] : "zero3";
  if (argc == 3) job.places["strategy.plugin"] = {"--strategy", true};
  job.mesh.ranks = 2;
  job.train.microbatches = 8;
  job.optimizer.name = "sgd";
  job.optimizer.lr = kRate;
  const Outcome tied = train(job, true), untied = train(job, false);

  base::TextTable table(
      {"matrices", "parameters", "sharded parameters", "gradients received per step", "first loss", "last loss"});
  const auto row = [&](const char* name, const Outcome& arm, bool is_tied) {
    const TrafficByOp& traffic = arm.report.traffic;
    table.add({name, std::to_string(network(is_tied).parameter_count()),
               base::bytes_text(arm.report.measured.bytes[static_cast<int>(MemoryCategory::sharded_parameters)]),
               base::bytes_text((traffic.reduce.bytes + traffic.all_reduce.bytes) / kSteps), std::to_string(arm.first),
               std::to_string(arm.last)});
  };
  row("one, tied", tied, true);
  row("two", untied, false);
  std::fputs(table.text().c_str(), stdout);

  Vector difference = tied.embedding;
  for (std::size_t i = 0; i < difference.size(); ++i) difference[i] -= untied.embedding[i] + untied.output[i];
  std::printf("largest gradient: tied %.6f, as embedding %.6f, as output %.6f; tied - (embedding + output): %.1e\n",
              largest(tied.embedding), largest(untied.embedding), largest(untied.output), largest(difference));

  bool refused = false;
  try {
    Model two({.name = "first", .parameters = {{"embedding.weight", {kTokens, kWidth}}}});
    two.add({.name = "last", .parameters = {output_weight(true)}});
  } catch (const Error& error) {
    refused = true;
    std::printf("over two units: %s\n", error.what());
  }
  const bool sum = largest(difference) < 1e-6F && largest(untied.embedding) > 1e-3F && largest(untied.output) > 1e-3F;
  const bool holds = sum && refused && tied.one_matrix && !untied.one_matrix && tied.last < tied.first / 4;
  std::puts(holds ? "holds: one matrix, its gradient the sum of both uses" : "does not hold: see the numbers above");
  return holds && std::fflush(stdout) == 0 ? 0 : 1;
} catch (const Error& error) {
  std::fprintf(stderr, "tied: %s\n", error.what());
  return exit_code(error.code());
}
