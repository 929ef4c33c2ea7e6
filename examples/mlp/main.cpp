// A whole program on reshard::app, its kernels and main included: a multi-layer perceptron learns sin(3a)·cos(3b).
#include <algorithm>
#include <cmath>
#include <numeric>

#include "reshard/app.h"
using namespace reshard;

// Uniform in [-1, 1), the same for the same place on any rank.
static float noise(uint64_t seed, uint64_t place) {
  uint64_t z = seed * 0x9E3779B97F4A7C15U + place * 0xBF58476D1CE4E5B9U + 1;
  for (int round = 0; round < 3; ++round) z = (z ^ (z >> 29U)) * 0x94D049BB133111EBU;
  return static_cast<float>(z >> 40U) * 0x1p-23F - 1.0F;
}
static void products(int64_t n, int64_t in, int64_t out, auto visit) {  // places in x[n, in] · w[in, out] = y[n, out]
  for (int64_t k = 0; k < n * in; ++k)
    for (int64_t o = 0; o < out; ++o) visit(k, k % in * out + o, k / in * out + o);
}
static void affine(const View& unit, const float* x, int64_t in, float* y, int64_t out, int64_t n) {
  for (int64_t k = 0; k < n * out; ++k) y[k] = unit.parameter(1)[k % out];
  products(n, in, out, [=, w = unit.parameter(0)](int64_t xk, int64_t wk, int64_t yk) { y[yk] += x[xk] * w[wk]; });
}
static void affine_back(const View& u, const float* x, int64_t in, float* dx, const float* dy, int64_t out, int64_t n) {
  for (int64_t k = 0; k < n * out; ++k) u.gradient(1)[k % out] += dy[k];
  std::fill_n(dx, n * in, 0.0F);
  products(n, in, out, [=, w = u.parameter(0), dw = u.gradient(0)](int64_t xk, int64_t wk, int64_t yk) {
    dw[wk] += x[xk] * dy[yk];
    dx[xk] += w[wk] * dy[yk];
  });
}

struct Settings {
  int64_t layers = 3, width = 32, batch = 1;  // batch: of one micro-batch on one rank
  int64_t inputs(int layer) const { return layer == 0 ? 2 : width; }
};

struct Steps : Trainer {
  Steps(const Job& job, const Settings& s, Runtime& runtime) : seed(job.train.seed), mlp(s), x(s.layers + 1), flows(2) {
    x[0] = runtime.allocate(mlp.batch * 2 * 4);  // the points; x[l + 1] is what layer l makes of them
    for (Buffer& flow : flows) flow = runtime.allocate(mlp.batch * mlp.width * 4);
  }
  void fill(Runtime& runtime) override {
    runtime.fill([&](std::string_view name, int64_t offset, std::span<float> values) {
      const auto [unit, index] = runtime.model().find_parameter(name);
      const float scale = index == 1 ? 0.0F : unit.index == 1 ? 2.0F : std::sqrt(3.0F / static_cast<float>(mlp.width));
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = scale * noise(seed + 2 + unit.index, offset + i);
    });
  }
  double micro_batch(Runtime& runtime, MicroBatch at) override {
    const int64_t part = (at.step * at.count + at.index) * runtime.rank().count() + runtime.rank().index();
    const double loss = forward(runtime, part * mlp.batch);
    float *dy = flows[0].floats(), *dx = flows[1].floats();
    runtime.backward(kRoot, [&](const View& head) {
      for (int64_t r = 0; r < mlp.batch; ++r) dy[r] *= 2.0F / static_cast<float>(mlp.batch);
      affine_back(head, x.back().floats(), mlp.width, dx, dy, 1, mlp.batch);
      for (int l = static_cast<int>(mlp.layers) - 1; l >= 0; --l)
        runtime.backward(Unit{l + 1}, [&](const View& layer) {
          std::swap(dx, dy);
          const Buffer y = std::move(x[l + 1]);
          for (int64_t k = 0; k < mlp.batch * mlp.width; ++k) dy[k] *= 1 - y.floats()[k] * y.floats()[k];
          affine_back(layer, x[l].floats(), mlp.inputs(l), dx, dy, mlp.width, mlp.batch);
        });
    });
    return loss;
  }
  // The mean squared error of the points from place `first` on; each point's error is left in flows[0].
  double forward(Runtime& runtime, int64_t first) {
    float *points = x[0].floats(), *errors = flows[0].floats();
    for (int64_t i = 0; i < 2 * mlp.batch; ++i) points[i] = noise(seed + 1, 2 * first + i);
    runtime.forward(kRoot, [&](const View& head) {
      for (int l = 0; l < mlp.layers; ++l)
        runtime.forward(Unit{l + 1}, [&](const View& layer) {
          float* y = (x[l + 1] = runtime.allocate(mlp.batch * mlp.width * 4)).floats();
          affine(layer, x[l].floats(), mlp.inputs(l), y, mlp.width, mlp.batch);
          std::transform(y, y + mlp.batch * mlp.width, y, [](float z) { return std::tanh(z); });
        });
      affine(head, x.back().floats(), mlp.width, errors, 1, mlp.batch);
    });
    for (int64_t r = 0; r < mlp.batch; ++r) errors[r] -= std::sin(3 * points[2 * r]) * std::cos(3 * points[2 * r + 1]);
    return std::inner_product(errors, errors + mlp.batch, errors, 0.0) / static_cast<double>(mlp.batch);
  }
  const uint64_t seed;
  const Settings mlp;
  std::vector<Buffer> x, flows;  // x: saved from forward to backward
};

struct Mlp : Program {
  std::string name() const override { return "mlp"; }
  std::string summary() const override { return "a small multi-layer perceptron on made-up data"; }
  std::string default_job() const override { return "examples/mlp/job.toml"; }
  int64_t samples_per_step(const Job& job) const override { return job.train.global_batch; }
  void declare(Tables& tables) override {
    tables.emplace_back("model", "The perceptron.")
        .key("layers", &mlp.layers, {.doc = "before the head, with tanh", .min = 1, .max = 1000})
        .key("width", &mlp.width, {.doc = "of each layer", .min = 2, .max = 4096});
  }
  Model model(const Job& job, const Tables&) override {
    mlp.batch = job.train.global_batch / (int64_t{job.rank_count()} * job.train.microbatches);
    const int64_t width = mlp.width, saved = width * mlp.batch * 4;
    Model perceptron({.name = "head", .parameters = {{"head.weight", {width, 1}}, {"head.bias", {1}, false}}});
    for (int l = 0; l < mlp.layers; ++l) {
      const std::string unit = "layer." + std::to_string(l);
      std::vector<Parameter> both{{unit + ".weight", {mlp.inputs(l), width}}, {unit + ".bias", {width}, false}};
      perceptron.add({.name = unit, .parameters = std::move(both), .saved_bytes = saved});
    }
    perceptron.hold_bytes(mlp.batch * 2 * 4 + 2 * saved);
    perceptron.compute_only_in(Dtype::fp32);
    return perceptron;
  }
  std::unique_ptr<Trainer> trainer(const Job& job, Runtime& runtime) override {
    return std::make_unique<Steps>(job, mlp, runtime);
  }
  Settings mlp;
};

int main(int argc, char** argv) {
  Mlp program;
  return app(argc, argv, program);
}
