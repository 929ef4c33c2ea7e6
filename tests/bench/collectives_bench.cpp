// How close the collectives among threads come to what the memory allows. Each line is one size and prints
//
//   all_gather       ratio = time of a memcpy of the whole by every rank at the same time / time of the all-gather
//   reduce_scatter   ratio = (R + 1) · S bytes at the bandwidth of STREAM's add, with the same stores / its time
//   all_reduce       the same bound and the all-gather's R · S written bytes on top
//   latency          µs per collective, small ones in a row
//
// with S the bytes of a rank's whole buffer and R the ranks (RESHARD_BENCH_RANKS, else 2). A row in bf16 has the bound
// for the bytes that it moves: bf16 into fp32 reads R · S and writes 2 · S / R per rank. Both sides of a ratio are
// measured in turns; the ratio is the median over the turns, `low` and `high` the quartiles.

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "comm/local/local.h"
#include "device/device.h"
#include "memory/pool.h"
#include "tests/bench/team.h"

namespace reshard::bench {
namespace {

int rank_count() {
  const char* text = std::getenv("RESHARD_BENCH_RANKS");
  return text == nullptr ? 2 : std::max(2, std::atoi(text));
}

// One rank's communicator and buffers, on huge pages like a unit's.
struct Rank {
  Rank(comm::LocalRanks& ranks, int rank, size_t bytes)
      : communicator(ranks.communicator(rank)),
        whole(pool.allocate(static_cast<int64_t>(bytes), memory::Category::whole_parameters)),
        source(pool.allocate(static_cast<int64_t>(bytes), memory::Category::gradients)),
        shard(pool.allocate(static_cast<int64_t>(bytes), memory::Category::sharded_parameters)) {
    for (memory::Block* block : {&whole, &source, &shard}) std::memset(block->data(), 0, bytes);
  }

  memory::Pool pool;
  std::unique_ptr<comm::Communicator> communicator;
  memory::Block whole, source, shard;
};

struct Setup {
  explicit Setup(size_t bytes_per_rank)
      : count(rank_count()),
        bytes(bytes_per_rank / (64 * static_cast<size_t>(count)) * 64 * static_cast<size_t>(count)),
        team(count),
        ranks({.ranks = count}),
        all(static_cast<size_t>(count)) {
    team.seconds(
        [&](int rank) { at(rank) = std::make_unique<Rank>(ranks, rank, bytes); });  // each touches its own first
  }

  std::unique_ptr<Rank>& at(int rank) { return all[static_cast<size_t>(rank)]; }
  size_t shard_bytes() const { return bytes / static_cast<size_t>(count); }

  int count;
  size_t bytes;
  Team team;
  comm::LocalRanks ranks;
  std::vector<std::unique_ptr<Rank>> all;
};

// Small sizes are repeated within one measurement, so that the clock and the start do not show.
int repeats(size_t bytes) {
  return static_cast<int>(std::max<size_t>(1, (size_t{4} << 20) / std::max<size_t>(bytes, 4096)));
}

void report(benchmark::State& state, const Pairs& pairs, const char* other) {
  std::vector<double> sorted = pairs.ratios;
  std::sort(sorted.begin(), sorted.end());
  state.counters["ratio"] = median(pairs.ratios);
  state.counters["low"] = sorted[sorted.size() / 4];
  state.counters["high"] = sorted[sorted.size() * 3 / 4];
  state.counters["us"] = median(pairs.first) * 1e6;
  state.counters[other] = median(pairs.second) * 1e6;
}

void compare(benchmark::State& state, Setup& setup, const char* other, double factor,
             const std::function<void(Rank&)>& collective, const std::function<void(Rank&, int)>& reference) {
  const int rounds = repeats(setup.bytes);
  const std::function<void(int)> first = [&](int rank) {
    for (int i = 0; i < rounds; ++i) collective(*setup.at(rank));
  };
  const std::function<void(int)> second = [&](int rank) {
    for (int i = 0; i < rounds; ++i) reference(*setup.at(rank), rank);
  };
  setup.team.seconds(first);
  setup.team.seconds(second);
  Pairs pairs;
  for (auto _ : state) {
    const double a = setup.team.seconds(first) / rounds, b = setup.team.seconds(second) / rounds * factor;
    pairs.add(a, b);
    state.SetIterationTime(a);
  }
  report(state, pairs, other);
}

void all_gather(benchmark::State& state) {
  Setup setup(static_cast<size_t>(state.range(0)));
  compare(
      state, setup, "memcpy_us", 1.0,
      [&](Rank& rank) { rank.communicator->all_gather(rank.shard.data(), setup.shard_bytes(), rank.whole.data(), {}); },
      [&](Rank& rank, int) { std::memcpy(rank.whole.data(), rank.source.data(), setup.bytes); });
}

// The reference adds S / R · (R + 1) / 3 bytes into as many on each rank: reads and writes (R + 1) · S bytes in all.
void stream(Rank& rank, const Setup& setup) {
  const size_t count = setup.shard_bytes() / sizeof(float) / 16 * 16;
  auto* source = rank.source.as<float>();
  const bool past_caches = setup.bytes >= device::streaming_bytes();
  (past_caches ? stream_add : cached_add)(source, source + count, rank.whole.as<float>(), count);
}

struct Formats {
  Dtype input, output;
};

void reduce_scatter(benchmark::State& state, Formats formats) {
  Setup setup(static_cast<size_t>(state.range(0)));
  const auto width = static_cast<size_t>(bytes_of(formats.input));
  const double written = static_cast<double>(bytes_of(formats.output)) / static_cast<double>(width);
  compare(
      state, setup, "bound_us", (setup.count + written) / 3.0,
      [&](Rank& rank) {
        rank.communicator->reduce_scatter(rank.source.data(), formats.input, rank.shard.data(), formats.output,
                                          setup.shard_bytes() / width, {}, {});
      },
      [&](Rank& rank, int) { stream(rank, setup); });
}

void all_reduce(benchmark::State& state, Dtype dtype) {
  Setup setup(static_cast<size_t>(state.range(0)));
  compare(
      state, setup, "bound_us", (setup.count + 1 + 2 * (setup.count - 1)) / 3.0,
      [&](Rank& rank) {
        rank.communicator->all_reduce(rank.source.data(), rank.whole.data(), dtype,
                                      setup.bytes / static_cast<size_t>(bytes_of(dtype)), {}, {});
      },
      [&](Rank& rank, int) { stream(rank, setup); });
}

enum class Small { barrier, all_gather, reduce_scatter, all_reduce };

void latency(benchmark::State& state, Small what) {
  Setup setup(static_cast<size_t>(state.range(0)));
  constexpr int kRounds = 2000;
  const std::function<void(int)> work = [&](int index) {
    Rank& rank = *setup.at(index);
    const size_t count = setup.shard_bytes() / sizeof(float);
    for (int i = 0; i < kRounds; ++i) {
      switch (what) {
        case Small::barrier: rank.communicator->barrier({}); break;
        case Small::all_gather:
          rank.communicator->all_gather(rank.shard.data(), setup.shard_bytes(), rank.whole.data(), {});
          break;
        case Small::reduce_scatter:
          rank.communicator->reduce_scatter(rank.source.data(), Dtype::fp32, rank.shard.data(), Dtype::fp32, count, {},
                                            {});
          break;
        case Small::all_reduce:
          rank.communicator->all_reduce(rank.source.data(), rank.whole.data(), Dtype::fp32, setup.bytes / sizeof(float),
                                        {}, {});
          break;
      }
    }
  };
  std::vector<double> times;
  for (auto _ : state) {
    times.push_back(setup.team.seconds(work) / kRounds);
    state.SetIterationTime(times.back());
  }
  state.counters["us"] = median(times) * 1e6;
  state.counters["best_us"] = *std::min_element(times.begin(), times.end()) * 1e6;
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  for (const int64_t kib : {64, 256, 1024, 4096, 16384, 65536, 262144}) benchmark->Arg(kib << 10);
  benchmark->UseManualTime()->Iterations(15);
}

BENCHMARK(all_gather)->Apply(sizes);
BENCHMARK_CAPTURE(reduce_scatter, fp32, Formats{Dtype::fp32, Dtype::fp32})->Apply(sizes);
BENCHMARK_CAPTURE(reduce_scatter, bf16_to_fp32, Formats{Dtype::bf16, Dtype::fp32})->Apply(sizes);
BENCHMARK_CAPTURE(reduce_scatter, bf16, Formats{Dtype::bf16, Dtype::bf16})->Apply(sizes);
BENCHMARK_CAPTURE(all_reduce, fp32, Dtype::fp32)->Apply(sizes);
BENCHMARK_CAPTURE(all_reduce, bf16, Dtype::bf16)->Apply(sizes);
BENCHMARK_CAPTURE(latency, barrier, Small::barrier)->Arg(4096)->UseManualTime()->Iterations(20);
BENCHMARK_CAPTURE(latency, all_gather, Small::all_gather)->Arg(512)->Arg(4096)->UseManualTime()->Iterations(20);
BENCHMARK_CAPTURE(latency, reduce_scatter, Small::reduce_scatter)->Arg(512)->Arg(4096)->UseManualTime()->Iterations(20);
BENCHMARK_CAPTURE(latency, all_reduce, Small::all_reduce)->Arg(512)->Arg(4096)->UseManualTime()->Iterations(20);

}  // namespace
}  // namespace reshard::bench

BENCHMARK_MAIN();
