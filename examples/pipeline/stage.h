#pragma once

// A stage of the pipeline: some layers of the network, their kernels, and the order of its passes. A Seat is one rank's
// and belongs to that rank's thread; Links are shared by all ranks of both stages.

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "queue.h"
#include "reshard/runtime.h"

namespace pipeline {

using namespace reshard;

inline constexpr int kRanks = 2, kLayers = 4, kMicroBatches = 4, kSteps = 20;
inline constexpr std::size_t kWidth = 16, kX = 8 * kWidth;  // elements of a micro-batch

inline float noise(int64_t seed, int64_t place) {
  return std::sin(static_cast<float>((place * 7919 + seed * 104729) % 9973));
}

struct Links {
  Queue forward[kRanks], backward[kRanks];  // by rank
  void close() {
    for (int r = 0; r < kRanks; ++r) forward[r].close(), backward[r].close();
  }
};

// Layers first … last - 1 of a network of layers y = tanh(w · x), element by element; and what became of it.
struct Stage {
  int first = 0, last = kLayers;
  std::vector<double> losses = {};
  std::string passes = {};  // of the last step
  Report report = {};
  bool begins() const { return first == 0; }
  bool ends() const { return last == kLayers; }
};

// One rank of a stage.
struct Seat {
  Rows points(int m) const {
    const int64_t batch = runtime.steps_done() * kMicroBatches + m;
    Rows rows(kX);
    for (std::size_t k = 0; k < kX; ++k)
      rows[k] = noise(batch * kRanks + runtime.rank().index(), static_cast<int64_t>(k));
    return rows;
  }
  Rows forward(int m, Rows input) {
    runtime.enter_micro_batch(m);
    passes += " F" + std::to_string(m);
    x[m] = {std::move(input)};
    runtime.forward(kRoot, [&](const View&) {
      for (int u = 1; u <= stage.last - stage.first; ++u)
        runtime.forward(Unit{u}, [&](const View& layer) {
          Rows y = x[m].back();
          for (std::size_t k = 0; k < kX; ++k) y[k] = std::tanh(layer.parameter(0)[k % kWidth] * y[k]);
          x[m].push_back(std::move(y));
        });
    });
    return x[m].back();
  }
  Rows backward(int m, Rows dy) {
    runtime.enter_micro_batch(m);
    passes += " B" + std::to_string(m);
    runtime.backward(kRoot, [&](const View&) {
      for (int u = stage.last - stage.first; u >= 1; --u)
        runtime.backward(Unit{u}, [&](const View& layer) {
          for (std::size_t k = 0; k < kX; ++k) {
            const float dz = dy[k] * (1 - x[m][u][k] * x[m][u][k]);
            layer.gradient(0)[k % kWidth] += x[m][u - 1][k] * dz;
            dy[k] = layer.parameter(0)[k % kWidth] * dz;
          }
        });
    });
    return dy;
  }
  Rows missing(int m, double& loss) const {  // the gradient of the mean square of what is missing to half the input
    Rows dy = x[m].back();
    const Rows start = points(m);
    for (std::size_t k = 0; k < kX; ++k) {
      dy[k] = 2 * (dy[k] - start[k] / 2) / kX;
      loss += dy[k] * dy[k] * kX / 4;
    }
    return dy;
  }
  // 1F1B: forwards are ahead of backwards by as many micro-batches as stages follow.
  double step(Links& links) {
    Queue &activations = links.forward[runtime.rank().index()], &gradients = links.backward[runtime.rank().index()];
    const int ahead = stage.ends() ? 0 : 1;
    double loss = 0;
    passes.clear();
    for (int i = 0; i < kMicroBatches + ahead; ++i) {
      if (i < kMicroBatches) {
        Rows y = forward(i, stage.begins() ? points(i) : activations.pop());
        if (!stage.ends()) activations.push(std::move(y));
      }
      if (i < ahead) continue;
      Rows dx = backward(i - ahead, stage.ends() ? missing(i - ahead, loss) : gradients.pop());
      if (!stage.begins()) gradients.push(std::move(dx));
    }
    return loss;
  }
  Runtime& runtime;
  const Stage& stage;
  std::string passes = {};
  std::vector<Rows> x[kMicroBatches] = {};  // the input of each layer, and the last one's y
};

}  // namespace pipeline
