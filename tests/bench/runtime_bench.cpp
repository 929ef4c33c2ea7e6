// What the runtime itself costs, with kernels that do nothing: per hook on one rank, where no op moves bytes, and per unit
// and pass on two ranks with units so small (64 elements a rank) that only latency counts. Memory allocation per hook is
// counted too and must be 0 after the first step.
//
// A step's end is measured where the strategy listens (adaptive) and where it does not, and a whole step where a plugin decides
// and where the user's own entries do: once the plan is made, neither asks a plugin.
//
// Wanted: <= 0.5 µs per hook; <= 2 µs per unit and pass, the collectives' own latency (printed as a yardstick) apart.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "comm/communicator.h"
#include "reshard/runtime.h"

namespace {

std::atomic<int64_t> allocations{0};

}  // namespace

[[gnu::noinline]] void* operator new(std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace reshard {
namespace {

constexpr int kUnits = 32;

Model small_units(int ranks) {
  Model model({.name = "root"});
  for (int u = 0; u < kUnits; ++u)
    model.add({.name = "h." + std::to_string(u), .parameters = {{"w" + std::to_string(u), {64 * ranks}}}});
  return model;
}

Job small_job(int ranks, const std::string& strategy, bool decided_by_user) {
  Job job;
  job.strategy.plugin = std::string(RESHARD_BINARY_DIR) + "/plugins/" + strategy + ".so";
  job.mesh.ranks = ranks;
  job.train.steps = 1;
  job.memory.budget = int64_t{1} << 30;
  if (decided_by_user) {
    UnitOverride all;
    all.match = "*";
    all.after_forward = {AfterForward::free(), "bench"};
    all.after_backward = {AfterBackward::free, "bench"};
    all.reduce = {Reduce::each, "bench"};
    job.strategy.units.push_back(all);
  }
  return job;
}

// Seconds per step's hooks and the collectives' yardstick, measured on rank 0 over `steps` steps.
struct Cost {
  double seconds_per_step = 0, seconds_per_collective = 0;
  double allocations_per_step = 0;
  double seconds_per_end = 0;  // of end_step()
};

void pass(Runtime& runtime) {
  runtime.before_forward(kRoot);
  for (int u = 1; u <= kUnits; ++u) {
    runtime.before_forward({u});
    runtime.after_forward({u});
  }
  runtime.after_forward(kRoot);
  runtime.before_backward(kRoot);
  for (int u = kUnits; u >= 1; --u) {
    runtime.before_backward({u});
    runtime.after_backward({u});
  }
  runtime.after_backward(kRoot);
}

Cost measure(int ranks, const std::string& strategy, int steps, bool decided_by_user = false) {
  Cost cost;
  const Job job = small_job(ranks, strategy, decided_by_user);
  const Model model = small_units(ranks);
  launch(job, [&](Rank& rank) {
    Runtime runtime(job, model, rank);
    runtime.fill([](std::string_view, int64_t, std::span<float> values) { std::fill(values.begin(), values.end(), 1.0F); });
    double ends = 0;
    const auto hooks = [&] {
      runtime.begin_step();
      runtime.begin_micro_batch();
      const auto begin = std::chrono::steady_clock::now();
      pass(runtime);
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      runtime.reduce();
      runtime.update(runtime.gradient_norm());
      const auto end = std::chrono::steady_clock::now();
      runtime.end_step(0);
      ends += std::chrono::duration<double>(std::chrono::steady_clock::now() - end).count();
      return seconds;
    };
    for (int s = 0; s < 3; ++s) hooks();
    const int64_t before = allocations.load();
    double seconds = 0;
    ends = 0;
    for (int s = 0; s < steps; ++s) seconds += hooks();
    const double seconds_per_end = ends / steps;
    const int64_t made = allocations.load() - before;
    float values[64 * 8] = {};
    rank.barrier();
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 1000; ++i)
      rank.communicator().reduce_scatter(values, Dtype::fp32, values + 64 * rank.index(), Dtype::fp32, 64, {}, {});
    const double yardstick = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / 1000;
    if (rank.first()) cost = {seconds / steps, ranks > 1 ? yardstick : 0, static_cast<double>(made) / steps, seconds_per_end};
  });
  return cost;
}

void hook_cost(benchmark::State& state, const std::string& strategy) {
  constexpr double kHooks = 4.0 * (kUnits + 1);
  double seconds = 0, made = 0;
  for (auto _ : state) {
    const Cost cost = measure(1, strategy, 200);
    seconds += cost.seconds_per_step;
    made = cost.allocations_per_step;
  }
  const auto runs = static_cast<double>(state.iterations());
  state.counters["us_per_hook"] = seconds / runs / kHooks * 1e6;
  state.counters["allocations_per_step"] = made;  // the stages' own: losses and norms are exchanged through a vector
}

void unit_cost(benchmark::State& state, const std::string& strategy) {
  double seconds = 0, collectives = 0;
  for (auto _ : state) {
    const Cost cost = measure(2, strategy, 200);
    seconds += cost.seconds_per_step;
    collectives += cost.seconds_per_collective;
  }
  const auto runs = static_cast<double>(state.iterations());
  state.counters["us_per_unit_and_pass"] = seconds / runs / (2.0 * kUnits) * 1e6;
  state.counters["us_per_collective"] = collectives / runs * 1e6;
}

void end_cost(benchmark::State& state, const std::string& strategy) {
  double seconds = 0;
  for (auto _ : state) seconds += measure(2, strategy, 200).seconds_per_end;
  state.counters["us_per_end"] = seconds / static_cast<double>(state.iterations()) * 1e6;
}

// Turn by turn, so that both see the same machine.
void who_decides(benchmark::State& state) {
  std::vector<double> ratios;
  for (auto _ : state) {
    const double plugin = measure(2, "zero3", 200).seconds_per_step;
    ratios.push_back(plugin / measure(2, "zero2", 200, true).seconds_per_step);
  }
  std::sort(ratios.begin(), ratios.end());
  state.counters["plugin_over_user"] = ratios[ratios.size() / 2];
}

BENCHMARK_CAPTURE(hook_cost, zero3, std::string("zero3"))->Iterations(5);
BENCHMARK_CAPTURE(hook_cost, zero2, std::string("zero2"))->Iterations(5);
BENCHMARK_CAPTURE(unit_cost, zero3, std::string("zero3"))->Iterations(5);
BENCHMARK_CAPTURE(unit_cost, zero2, std::string("zero2"))->Iterations(5);
BENCHMARK_CAPTURE(end_cost, zero3, std::string("zero3"))->Iterations(5);
BENCHMARK_CAPTURE(end_cost, adaptive, std::string("adaptive"))->Iterations(5);
BENCHMARK(who_decides)->Iterations(41);

}  // namespace
}  // namespace reshard

BENCHMARK_MAIN();
