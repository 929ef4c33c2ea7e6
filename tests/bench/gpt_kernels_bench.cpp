// Forward and backward of the GPT example on unsynchronised threads, without runtime or optimizer, beside the bare
// matrix products of the same step, which take turns with it in the same run: `of_products` is the products' time over
// the pass's time (1 = nothing but products), the median over the turns. Arguments: layers width heads sequence batch
// threads turns; default: 6 384 6 128 4 1 9 (10.8 M parameters).

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "examples/gpt/kernels.h"
#include "examples/gpt/products.h"
#include "tests/examples/gpt_single.h"

namespace {

using Clock = std::chrono::steady_clock;

struct Seconds {
  double pass, products;
};

// The linear layers and the head, forward and backward; attention's own products count as the pass's.
void bare_products(const gpt::Shape& shape, gpt::Batch batch, float* memory) {
  const int n = static_cast<int>(batch.tokens()), d = shape.width;
  const int64_t most =
      std::max(int64_t{n} * std::max(4 * d, shape.vocabulary), int64_t{d} * std::max(4 * d, shape.vocabulary));
  float *x = memory, *w = memory + most, *y = memory + 2 * most;
  auto layer = [&](int in, int out) {
    const gpt::Linear linear{n, in, out, w, nullptr};
    gpt::linear(linear, x, y, true);
    gpt::linear_input_gradient(linear, y, x);
    gpt::add_weight_gradient(linear, x, y, w);
  };
  std::fill_n(memory, 3 * most, 0.0F);
  for (int i = 0; i < shape.layers; ++i) {
    layer(d, 3 * d);
    layer(d, d);
    layer(d, 4 * d);
    layer(4 * d, d);
  }
  layer(d, shape.vocabulary);
}

std::vector<Seconds> measure(const gpt::Shape& shape, gpt::Batch batch, int turns) {
  gpt::SingleProcess net(shape, batch);
  for (const reshard::UnitSpec& unit : net.model().units()) {
    for (const reshard::Parameter& p : unit.parameters) gpt::initial_values(shape, 1, p.name, 0, net.values(p.name));
  }
  std::vector<int32_t> inputs, targets;
  for (int i = 0; i < batch.tokens(); ++i) {
    inputs.push_back(i * 7 % shape.vocabulary);
    targets.push_back(i * 11 % shape.vocabulary);
  }
  const int64_t most = std::max<int64_t>(batch.tokens(), shape.width) * std::max(4 * shape.width, shape.vocabulary);
  const gpt::Floats memory(3 * most);
  std::vector<Seconds> all;
  for (int turn = 0; turn <= turns; ++turn) {
    const auto start = Clock::now();
    net.pass(inputs.data(), targets.data());
    const auto middle = Clock::now();
    bare_products(shape, batch, memory.data());
    const auto end = Clock::now();
    if (turn > 0) {  // the first one warms up
      all.push_back(
          {std::chrono::duration<double>(middle - start).count(), std::chrono::duration<double>(end - middle).count()});
    }
  }
  return all;
}

template <typename Value>
double median(const std::vector<Seconds>& all, Value value) {
  std::vector<double> values;
  for (const Seconds& s : all) values.push_back(value(s));
  std::ranges::sort(values);
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  auto argument = [&](int i, int otherwise) { return argc > i ? std::atoi(argv[i]) : otherwise; };
  const gpt::Shape shape = {.layers = argument(1, 6),
                            .width = argument(2, 384),
                            .heads = argument(3, 6),
                            .sequence = argument(4, 128),
                            .vocabulary = 256,
                            .tied = true};
  const gpt::Batch batch = {argument(5, 4), shape.sequence};
  const int threads = argument(6, 1), turns = argument(7, 9);
  std::vector<std::vector<Seconds>> results(static_cast<std::size_t>(threads));
  std::vector<std::thread> running;
  for (std::vector<Seconds>& result : results) {
    running.emplace_back([&] { result = measure(shape, batch, turns); });
  }
  for (std::thread& thread : running) thread.join();

  const double flops = 3 * (shape.layers * gpt::block_flops(shape, batch) + gpt::head_flops(shape, batch));
  std::printf("%d layers, width %d, %d x %d tokens, %s kernels, medians of %d turns\n", shape.layers, shape.width,
              batch.sequences, batch.length, gpt::kernels().name, turns);
  std::printf("%-8s %10s %10s %12s %10s\n", "thread", "pass ms", "GFLOP/s", "products ms", "of_products");
  for (std::size_t t = 0; t < results.size(); ++t) {
    const double pass = median(results[t], [](Seconds s) { return s.pass; });
    std::printf("%-8zu %10.1f %10.1f %12.1f %10.3f\n", t, 1e3 * pass, flops / pass / 1e9,
                1e3 * median(results[t], [](Seconds s) { return s.products; }),
                median(results[t], [](Seconds s) { return s.products / s.pass; }));
  }
  return 0;
}
