// Activation checkpointing: a block keeps its input alone, and its forward runs again inside backward. One network
// three times: all kept; recomputed inside of each block's own backward; recomputed two blocks at a time, ahead of
// theirs.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string_view>

#include "reshard/error.h"
#include "reshard/runtime.h"
#include "reshard/text.h"

using namespace reshard;

static constexpr int kBlocks = 8, kSteps = 10;
static constexpr int64_t kWidth = 16, kFold = 8, kWeights = kWidth * kFold, kX = 32 * kWidth, kH = kX * kFold;
enum class Mode { keep, own_backward, pairs_ahead };

static float noise(int64_t seed, int64_t place) {
  return std::sin(static_cast<float>((place * 7919 + seed * 104729) % 9973));
}

// A block: each x makes eight of h = tanh(w · x), and y = x + their mean.
static void inner(const float* x, const View& block, float* h) {
  const std::span<const float> w = block.parameter(0);
  for (int64_t k = 0; k < kH; ++k) h[k] = std::tanh(w[k % kWeights] * x[k / kFold]);
}
static void inner_back(const float* x, const float* h, const View& block, float* dy) {  // dy becomes dx
  const std::span<const float> w = block.parameter(0);
  const std::span<float> dw = block.gradient(0);
  for (int64_t i = 0; i < kX; ++i) {
    const float dh = dy[i] / kFold;
    for (int64_t k = i * kFold; k < (i + 1) * kFold; ++k) {
      dw[k % kWeights] += x[i] * dh * (1 - h[k] * h[k]);
      dy[i] += w[k % kWeights] * dh * (1 - h[k] * h[k]);
    }
  }
}

static Model network(Mode mode) {
  Model model({.name = "root"});
  for (int b = 0; b < kBlocks; ++b) {
    const std::string unit = "block." + std::to_string(b);  // it saves its output, and its h where that is kept
    model.add({.name = unit,
               .parameters = {{unit + ".weight", {kWidth, kFold}}},
               .saved_bytes = (kX + (mode == Mode::keep ? kH : 0)) * 4});
  }
  model.hold_bytes((2 * kX + (mode == Mode::keep ? 0 : 2 * kH)) * 4);  // x[0], dy, and h of two blocks
  model.compute_only_in(Dtype::fp32);
  return model;
}

struct Pass {
  Pass(Runtime& r, Mode m) : runtime(r), mode(m), dy(r.allocate(kX * 4)) {
    x[0] = r.allocate(kX * 4);
    if (mode != Mode::keep) scratch[0] = r.allocate(kH * 4), scratch[1] = r.allocate(kH * 4);
  }
  float* h(int b) { return mode == Mode::keep ? kept[b].floats() : scratch[b % 2].floats(); }
  void recompute(int b) {
    const int64_t before = runtime.report().traffic.gather.count;
    runtime.forward(Unit{b + 1}, [&](const View& block) { inner(x[b].floats(), block, h(b)); });
    gathers += runtime.report().traffic.gather.count - before;
  }
  double operator()(MicroBatch at) {
    const int64_t seed = (at.step * at.count + at.index) * 8 + runtime.rank().index();
    for (int64_t k = 0; k < kX; ++k) x[0].floats()[k] = noise(seed, k);
    runtime.forward(kRoot, [&](const View&) {
      for (int b = 0; b < kBlocks; ++b)
        runtime.forward(Unit{b + 1}, [&](const View& block) {
          if (mode == Mode::keep) kept[b] = runtime.allocate(kH * 4);
          float* y = (x[b + 1] = runtime.allocate(kX * 4)).floats();
          inner(x[b].floats(), block, h(b));
          std::copy_n(x[b].floats(), kX, y);
          for (int64_t k = 0; k < kH; ++k) y[k / kFold] += h(b)[k] / kFold;
        });
    });
    double loss = 0;
    for (int64_t k = 0; k < kX; ++k) {
      const float error = x[kBlocks].floats()[k] - std::sin(3 * x[0].floats()[k]);
      loss += error * error / kX;
      dy.floats()[k] = 2 * error / kX;
    }
    runtime.backward(kRoot, [&](const View&) {
      for (int b = kBlocks - 1; b >= 0; --b) {
        if (mode == Mode::pairs_ahead && b % 2 == 1) recompute(b - 1), recompute(b);
        runtime.backward(Unit{b + 1}, [&](const View& block) {
          if (mode == Mode::own_backward) recompute(b);
          inner_back(x[b].floats(), h(b), block, dy.floats());
          x[b + 1] = Buffer(), kept[b] = Buffer();
        });
      }
    });
    return loss;
  }
  Runtime& runtime;
  const Mode mode;
  Buffer dy, x[kBlocks + 1], kept[kBlocks], scratch[2];
  int64_t gathers = 0;  // that recompute() caused
};

struct Outcome {
  std::vector<double> losses;
  Report report;
  int64_t gathers = 0;
};
static Outcome train(const Job& job, Mode mode) {
  Outcome outcome;
  const Model model = network(mode);
  launch(job, [&](Rank& rank) {
    Runtime runtime(job, model, rank);
    runtime.fill([](std::string_view name, int64_t offset, std::span<float> values) {
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = 0.3F * noise(100 + name[6], offset + static_cast<int64_t>(i));
    });
    Pass pass(runtime, mode);
    std::vector<double> losses;
    for (int s = 0; s < kSteps; ++s) losses.push_back(runtime.step(std::ref(pass)).loss);
    if (rank.first()) outcome = {losses, runtime.report(), pass.gathers};
  });
  return outcome;
}

int main(int argc, char** argv) try {
  if (argc != 1 && (argc != 3 || std::string_view(argv[1]) != "--strategy"))
    return std::fputs("usage: recompute [--strategy NAME]\n", stderr), 2;
  Job job;
  job.strategy.plugin = argc == 3 ? argv[2] : "zero3";
  if (argc == 3) job.places["strategy.plugin"] = {"--strategy", true};
  job.mesh.ranks = 2;
  job.train.microbatches = 2;
  const Outcome kept = train(job, Mode::keep), own = train(job, Mode::own_backward),
                pairs = train(job, Mode::pairs_ahead);

  base::TextTable table({"h is", "peak", "of it activations", "gathers", "of them in recompute", "last loss"});
  const auto activations = [](const Outcome& arm) {
    return arm.report.measured.bytes[static_cast<int>(MemoryCategory::activations)];
  };
  bool holds = own.gathers == 0 && 2 * activations(own) < activations(kept);
  const auto row = [&](const char* name, const Outcome& arm) {
    const int64_t gathers = arm.report.traffic.gather.count;
    table.add({name, base::bytes_text(arm.report.measured.total()), base::bytes_text(activations(arm)),
               base::count_text(gathers), base::count_text(arm.gathers), std::to_string(arm.losses.back())});
    holds = holds && arm.losses == kept.losses && gathers == kept.report.traffic.gather.count &&
            arm.report.measured.bytes == arm.report.predicted.bytes;
  };
  row("kept", kept);
  row("recomputed in its block's backward", own);
  row("recomputed in pairs, ahead of it", pairs);
  std::fputs(table.text().c_str(), stdout);
  std::puts(holds ? "holds: the same losses bit for bit and no gather more, at less than half of the activations"
                  : "does not hold: see the table");
  return holds && std::fflush(stdout) == 0 ? 0 : 1;
} catch (const Error& error) {
  std::fprintf(stderr, "recompute: %s\n", error.what());
  return exit_code(error.code());
}
