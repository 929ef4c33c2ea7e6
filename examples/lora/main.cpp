// A frozen base with small adapters that learn (LoRA), both in the same units. Gradients, optimizer state and what is
// reduced are of the adapters alone. The same network with everything trained shows what that saves.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <string_view>

#include "reshard/error.h"
#include "reshard/runtime.h"
#include "reshard/text.h"

using namespace reshard;

static constexpr int64_t kWidth = 64;
static constexpr int kLayers = 3, kSteps = 100;
using Row = std::array<float, kWidth>;

static float noise(int64_t seed, int64_t place) {
  return std::sin(static_cast<float>((place * 7919 + seed * 104729) % 9973));
}

// y = tanh(base · x + up * (down · x)): an adapter of rank 1. Returns down · x.
static float layer(const View& unit, const Row& x, const float* down, const float* up, Row& y) {
  const std::span<const float> base = unit.parameter(0);
  float low = 0;
  for (int64_t i = 0; i < kWidth; ++i) low += down[i] * x[i];
  for (int64_t o = 0; o < kWidth; ++o)
    y[o] = std::tanh(std::inner_product(x.begin(), x.end(), &base[o * kWidth], up[o] * low));
  return low;
}
static void layer_back(const View& unit, bool train_base, const Row& x, float low, const Row& y, Row& dy) {  // to dx
  const std::span<const float> base = unit.parameter(0);
  const std::span<float> base_gradient = train_base ? unit.gradient(0) : std::span<float>();
  Row dx{};
  float dlow = 0;
  for (int64_t o = 0; o < kWidth; ++o) {
    const float dz = dy[o] * (1 - y[o] * y[o]);
    unit.gradient(2)[o] += low * dz;
    dlow += unit.parameter(2)[o] * dz;
    for (int64_t i = 0; i < kWidth; ++i) {
      dx[i] += base[o * kWidth + i] * dz;
      if (train_base) base_gradient[o * kWidth + i] += x[i] * dz;
    }
  }
  for (int64_t i = 0; i < kWidth; ++i) {
    unit.gradient(1)[i] += x[i] * dlow;
    dy[i] = dx[i] + unit.parameter(1)[i] * dlow;
  }
}

static void initial(std::string_view name, int64_t offset, std::span<float> values) {
  const float size = name.ends_with("up") ? 0.0F : 0.2F;  // the adapters begin as no change
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = size * noise(name[6] + name.back(), offset + i);
}

static Model network(bool train_base) {
  Model model({.name = "input",
               .parameters = {{.name = "input.base", .shape = {kWidth}, .trainable = false}},
               .needs_parameters_in_backward = false});  // a unit that is frozen as a whole
  for (int l = 0; l < kLayers; ++l) {
    const std::string unit = "layer." + std::to_string(l);
    const Parameter base{.name = unit + ".base", .shape = {kWidth, kWidth}, .trainable = train_base};
    model.add({.name = unit, .parameters = {base, {unit + ".down", {kWidth}}, {unit + ".up", {kWidth}}}});
  }
  model.compute_only_in(Dtype::fp32);
  return model;
}

// The target comes from the same base with another adapter in each layer, which are to be found.
static double micro_batch(Runtime& runtime, bool train_base, MicroBatch at) {
  const int64_t seed = (at.step * at.count + at.index) * runtime.rank().count() + runtime.rank().index();
  std::array<Row, kLayers + 1> x;  // of each layer, and the last one's y
  std::array<float, kLayers> low;
  Row target, dy, hidden;
  runtime.forward(kRoot, [&](const View& input) {
    for (int64_t i = 0; i < kWidth; ++i) x[0][i] = input.parameter(0)[i] * 5 * noise(seed, i);
    target = x[0];
    for (int l = 0; l < kLayers; ++l)
      runtime.forward(Unit{l + 1}, [&](const View& unit) {
        for (int64_t i = 0; i < kWidth; ++i) hidden[i] = 0.2F * noise(90 + l, i);
        layer(unit, Row(target), hidden.data(), hidden.data(), target);
        low[l] = layer(unit, x[l], &unit.parameter(1)[0], &unit.parameter(2)[0], x[l + 1]);
      });
  });
  double loss = 0;
  for (int64_t i = 0; i < kWidth; ++i) {
    dy[i] = 2 * (x[kLayers][i] - target[i]) / kWidth;
    loss += dy[i] * dy[i] * kWidth / 4;
  }
  runtime.backward(kRoot, [&](const View&) {
    for (int l = kLayers - 1; l >= 0; --l)
      runtime.backward(Unit{l + 1},
                       [&](const View& unit) { layer_back(unit, train_base, x[l], low[l], x[l + 1], dy); });
  });
  return loss;
}

struct Outcome {
  double first = 0, last = 0;
  Report report;
  bool base_unchanged = true;
};
static Outcome train(const Job& job, bool train_base) {
  Outcome outcome;
  const Model model = network(train_base);
  launch(job, [&](Rank& rank) {
    Runtime runtime(job, model, rank);
    runtime.fill(initial);
    Outcome mine;
    for (int s = 0; s < kSteps; ++s) {
      mine.last = runtime.step([&](MicroBatch at) { return micro_batch(runtime, train_base, at); }).loss;
      if (s == 0) mine.first = mine.last;
    }
    mine.report = runtime.report();
    for (const UnitSpec& unit : model.units()) {
      std::vector<float> before(static_cast<std::size_t>(unit.parameters[0].elements()));
      initial(unit.parameters[0].name, 0, before);
      mine.base_unchanged = mine.base_unchanged && runtime.read(unit.parameters[0].name) == before;
    }
    if (rank.first()) outcome = mine;
  });
  return outcome;
}

int main(int argc, char** argv) try {
  if (argc != 1 && (argc != 3 || std::string_view(argv[1]) != "--strategy"))
    return std::fputs("usage: lora [--strategy NAME]\n", stderr), 2;
  Job job;
  job.strategy.plugin = argc == 3 ? argv[2] : "zero3";
  if (argc == 3) job.places["strategy.plugin"] = {"--strategy", true};
  job.mesh.ranks = 2;
  job.train.microbatches = 4;
  job.optimizer.lr = 5e-3;
  const Outcome adapters = train(job, false), all = train(job, true);

  base::TextTable table({"trained", "elements", "gradients at the peak", "optimizer state", "received per step",
                         "first loss", "last loss", "base"});
  struct Cost {
    int64_t elements, gradients, state, received;
  };
  const auto row = [&](const char* name, const Outcome& arm, int64_t elements) {
    const auto& peak = arm.report.measured.bytes;
    const TrafficByOp& traffic = arm.report.traffic;
    const Cost cost{elements, peak[static_cast<int>(MemoryCategory::gradients)],
                    peak[static_cast<int>(MemoryCategory::optimizer_state)],
                    (traffic.reduce.bytes + traffic.all_reduce.bytes) / kSteps};
    table.add({name, base::count_text(elements), base::bytes_text(cost.gradients), base::bytes_text(cost.state),
               base::bytes_text(cost.received), std::to_string(arm.first), std::to_string(arm.last),
               arm.base_unchanged ? "unchanged" : "changed"});
    return cost;
  };
  const int64_t low = kLayers * 2 * kWidth;
  const Cost few = row("adapters", adapters, low), many = row("all", all, low + kLayers * kWidth * kWidth);
  std::fputs(table.text().c_str(), stdout);
  const bool costs = few.received > 0 && few.received * many.elements == many.received * few.elements &&
                     few.state * many.elements == many.state * few.elements && few.gradients <= 4 * few.elements;
  const bool learns = adapters.last < adapters.first / 2 && adapters.base_unchanged && !all.base_unchanged;
  std::puts(costs && learns
                ? "holds: state and traffic in proportion to what is trained, the frozen base bit for bit as it was"
                : "does not hold: see the table");
  return costs && learns && std::fflush(stdout) == 0 ? 0 : 1;
} catch (const Error& error) {
  std::fprintf(stderr, "lora: %s\n", error.what());
  return exit_code(error.code());
}
