// AdamW and the gradient norm against the memory's own speed, printed as ratios of STREAM's triad, which takes turns
// with them in the same run (`of_triad` is the median over the turns). Ordinary stores, as AdamW's are, first read the
// line that they write, so that triad moves 16 bytes per fp32 element; AdamW stores to lines that it has just read and
// moves 28 bytes per parameter. Beside it triad with stores that bypass the caches, 12 bytes per element (`of_bypass`).
// Each thread has arrays of its own, as ranks do. Arguments: parameters per thread, threads.

#include <benchmark/benchmark.h>
#include <immintrin.h>
#include <sys/mman.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "optim/adamw.h"
#include "optim/clip.h"
#include "tests/bench/team.h"

namespace {

using Clock = std::chrono::steady_clock;

// Fp32 memory on huge pages, as the runtime's pool gives it.
class Floats {
 public:
  Floats(int64_t count, float value) : bytes_{(static_cast<size_t>(count) * 4 + kHuge - 1) / kHuge * kHuge} {
    data_ = static_cast<float*>(::operator new (bytes_, std::align_val_t{kHuge}));
    madvise(data_, bytes_, MADV_HUGEPAGE);
    std::fill_n(data_, bytes_ / 4, value);
  }
  ~Floats() { ::operator delete (data_, std::align_val_t{kHuge}); }
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;
  float* data() const { return data_; }

 private:
  static constexpr size_t kHuge = size_t{2} << 20;
  size_t bytes_;
  float* data_;
};

// Runs `work` on each of `threads` threads at the same moment; seconds from the first start to the last end. The caller
// is one of them: a caller that waits beside as many threads as there are cores would take memory time from them.
double seconds(int threads, const std::function<void(int)>& work) {
  std::barrier start{threads};
  std::vector<Clock::time_point> begin(static_cast<size_t>(threads)), end(begin);
  const auto body = [&](int t) {
    start.arrive_and_wait();
    begin[static_cast<size_t>(t)] = Clock::now();
    work(t);
    end[static_cast<size_t>(t)] = Clock::now();
  };
  std::vector<std::jthread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(body, t);
  body(0);
  others.clear();
  return std::chrono::duration<double>(std::ranges::max(end) - std::ranges::min(begin)).count();
}

enum class Stores { ordinary, bypass };

// a = b + 3 c. The arrays are aligned to huge pages and count is a multiple of 4.
void triad(float* a, const float* b, const float* c, int64_t count, Stores stores) {
  const __m128 three = _mm_set1_ps(3.0F);
  for (int64_t i = 0; i < count; i += 4) {
    const __m128 sum = _mm_add_ps(_mm_load_ps(b + i), _mm_mul_ps(three, _mm_load_ps(c + i)));
    stores == Stores::bypass ? _mm_stream_ps(a + i, sum) : _mm_store_ps(a + i, sum);
  }
  _mm_sfence();
}

struct RankMemory {
  explicit RankMemory(int64_t count)
      : values{count, 0.5F}, gradient{count, 0.01F}, mean{count, 0}, square{count, 0}, target{count, 0} {}
  Floats values, gradient, mean, square, target;
};

// Both triads and `work` take turns. The row's time is that of `work`.
void compare(benchmark::State& state, double bytes_per_element, const std::function<void(RankMemory&, int64_t)>& work) {
  const int64_t count = state.range(0);
  const int threads = static_cast<int>(state.range(1));
  std::vector<std::unique_ptr<RankMemory>> memory;
  for (int t = 0; t < threads; ++t) memory.push_back(std::make_unique<RankMemory>(count));
  const double elements = static_cast<double>(count) * threads;
  const auto triad_speed = [&](Stores stores, double bytes) {
    return elements * bytes / seconds(threads, [&](int t) {
             const RankMemory& m = *memory[static_cast<size_t>(t)];
             triad(m.target.data(), m.square.data(), m.gradient.data(), count, stores);
           });
  };
  std::vector<double> speeds, of_triad, of_bypass;
  for (auto _ : state) {
    const double ordinary = triad_speed(Stores::ordinary, 16), bypass = triad_speed(Stores::bypass, 12);
    const double time = seconds(threads, [&](int t) { work(*memory[static_cast<size_t>(t)], count); });
    state.SetIterationTime(time);
    speeds.push_back(elements * bytes_per_element / time);
    of_triad.push_back(speeds.back() / ordinary);
    of_bypass.push_back(speeds.back() / bypass);
  }
  state.counters["GB/s"] = reshard::bench::median(speeds) * 1e-9;
  state.counters["of_triad"] = reshard::bench::median(of_triad);
  state.counters["of_bypass"] = reshard::bench::median(of_bypass);
}

void adamw(benchmark::State& state) {
  const reshard::optim::AdamW optimizer{{}};
  compare(state, 28, [&](RankMemory& memory, int64_t count) {
    float* const tensors[] = {memory.mean.data(), memory.square.data()};
    optimizer.update(
        {.length = count, .values = memory.values.data(), .gradient = memory.gradient.data(), .state = tensors},
        {.step = 100, .lr = 1e-3, .gradient_scale = 0.5F});
  });
}

void gradient_norm(benchmark::State& state) {
  compare(state, 4, [&](RankMemory& memory, int64_t count) {
    reshard::optim::NormSum sum;
    sum.add({memory.gradient.data(), static_cast<size_t>(count)});
    benchmark::DoNotOptimize(sum.norm());
  });
}

// 1 MiB per tensor lies in the caches; 256 MiB per tensor (1 GiB per rank) is far beyond the last level of any of them.
void sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"parameters", "threads"})->UseManualTime()->Unit(benchmark::kMillisecond)->MinTime(1.0);
  for (const int64_t count : {int64_t{1} << 18, int64_t{1} << 26})
    for (const int threads : {1, 2}) bench->Args({count, threads});
}

BENCHMARK(adamw)->Apply(sizes);
BENCHMARK(gradient_norm)->Apply(sizes);

}  // namespace

BENCHMARK_MAIN();
