// Every collective gives exactly what its header says, bit for bit, for any number of ranks, any size and any timing.
// Method: ranks as threads run a random sequence of collectives that all derive from one seed, with random delays of
// their own, and compare each result with a plain sequential computation.

#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <random>
#include <type_traits>
#include <vector>

#include "tests/comm/ranks.h"

namespace reshard::comm {
namespace {

constexpr size_t kSizes[] = {0, 1, 2, 3, 7, 15, 16, 17, 63, 64, 101, 1021, 1024, 1031, 4096, 10007};

// Rank r's i-th value of the n-th collective: magnitudes differ widely, so that another order of additions shows.
float value(uint64_t seed, int rank, size_t i) {
  uint64_t x = seed * 0x9e3779b97f4a7c15 + static_cast<uint64_t>(rank) * 0xd1b54a32d192ed03 + i * 0x2545f4914f6cdd1d;
  x = (x ^ (x >> 31)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 29)) * 0x94d049bb133111eb;
  const double fraction = static_cast<double>(x >> 11) * 0x1p-53 - 0.5;
  return static_cast<float>(std::ldexp(fraction, static_cast<int>(x % 24)));
}

// Bottom up, as the header words it, in place.
float tree_sum(float* terms, size_t count) {
  while (count > 1) {
    size_t pairs = 0;
    for (size_t i = 0; i + 1 < count; i += 2) terms[pairs++] = terms[i] + terms[i + 1];
    if (count % 2 == 1) terms[pairs++] = terms[count - 1];
    count = pairs;
  }
  return terms[0];
}

constexpr size_t kMostRanks = 16;

float expected(uint64_t seed, const std::vector<int>& ranks, size_t i, const ReduceOptions& options, float before) {
  float terms[kMostRanks];
  for (size_t r = 0; r < ranks.size(); ++r) terms[r] = value(seed, ranks[r], i);
  float sum = tree_sum(terms, ranks.size());
  if (options.add_to_output) sum = before + sum;
  return options.scale == 1.0F ? sum : sum * options.scale;
}

// A vector that starts `shift` floats behind a cache line.
struct Values {
  Values(size_t count, size_t shift) : storage(count + shift + 16), count_(count) {
    const auto address = reinterpret_cast<uintptr_t>(storage.data());
    data = storage.data() + (64 - address % 64) % 64 / sizeof(float) + shift;
  }
  void fill(uint64_t seed, int rank, size_t first = 0) {
    for (size_t i = 0; i < count_; ++i) data[i] = value(seed, rank, first + i);
  }
  std::vector<float> storage;
  float* data;
  size_t count_;
};

void expect_same_bits(float actual, float wanted, size_t i) {
  if (std::bit_cast<uint32_t>(actual) == std::bit_cast<uint32_t>(wanted)) return;
  throw std::runtime_error("element " + std::to_string(i) + " is " + std::to_string(actual) + ", not " +
                           std::to_string(wanted));
}

// One rank's view of a sequence: `shared` is equal on all members, `own` is not.
struct Sequence {
  Communicator& communicator;
  std::vector<int> members;  // as ranks of the largest group: they select the values
  std::mt19937_64 shared, own;

  int self() const { return members[static_cast<size_t>(communicator.rank())]; }
  uint64_t common(uint64_t below) { return shared() % below; }

  void delay() {
    if (own() % 8 != 0) return;
    const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(own() % 80);
    while (std::chrono::steady_clock::now() < end) std::this_thread::yield();
  }

  ReduceOptions options() {
    constexpr float kScales[] = {1.0F, 1.0F / 3, 0.25F};
    const bool add = common(2) == 1;
    return {.add_to_output = add, .scale = kScales[common(3)]};
  }

  void all_gather(size_t count, uint64_t seed) {
    const bool in_place = own() % 2 == 0;
    const size_t size = members.size();
    Values whole(count * size, own() % 5), shard(count, own() % 3);
    float* place = whole.data + static_cast<size_t>(communicator.rank()) * count;
    shard.fill(seed, self());
    if (in_place) std::copy_n(shard.data, count, place);
    communicator.all_gather(in_place ? place : shard.data, count * sizeof(float), whole.data,
                            {.unit = 3, .unit_name = "h.3", .dtype = Dtype::fp32});
    for (size_t r = 0; r < size; ++r) {
      for (size_t i = 0; i < count; ++i) expect_same_bits(whole.data[r * count + i], value(seed, members[r], i), i);
    }
  }

  void reduce_scatter(size_t count, uint64_t seed) {
    const ReduceOptions how = options();
    const size_t size = members.size(), first = static_cast<size_t>(communicator.rank()) * count;
    const bool in_place = !how.add_to_output && own() % 2 == 0;
    Values input(count * size, own() % 5), apart(count, own() % 3);
    input.fill(seed, self());
    apart.fill(seed + 1, self(), first);
    float* output = in_place ? input.data + first : apart.data;
    communicator.reduce_scatter(input.data, Dtype::fp32, output, Dtype::fp32, count, how,
                                {.unit = 1, .unit_name = "h.1", .dtype = Dtype::fp32});
    for (size_t i = 0; i < count; ++i) {
      expect_same_bits(output[i], expected(seed, members, first + i, how, value(seed + 1, self(), first + i)), i);
    }
  }

  void all_reduce(size_t count, uint64_t seed) {
    const ReduceOptions how = options();
    const bool in_place = !how.add_to_output && own() % 2 == 0;
    Values input(count, own() % 5), apart(count, own() % 3);
    input.fill(seed, self());
    apart.fill(seed + 1, -1);
    float* output = in_place ? input.data : apart.data;
    communicator.all_reduce(input.data, output, Dtype::fp32, count, how,
                            {.unit = 2, .unit_name = "h.2", .dtype = Dtype::fp32});
    for (size_t i = 0; i < count; ++i) {
      expect_same_bits(output[i], expected(seed, members, i, how, value(seed + 1, -1, i)), i);
    }
  }

  void broadcast(size_t count, uint64_t seed) {
    const int root = static_cast<int>(common(members.size()));
    Values data(count, own() % 5);
    data.fill(seed, self());
    communicator.broadcast(data.data, count * sizeof(float), root, {.unit_name = "the seed"});
    for (size_t i = 0; i < count; ++i) {
      expect_same_bits(data.data[i], value(seed, members[static_cast<size_t>(root)], i), i);
    }
  }

  void exchange(uint64_t seed) {
    struct Mine {
      int rank;
      float value;
    };
    std::vector<Mine> all(members.size());
    communicator.exchange(Mine{self(), value(seed, self(), 0)}, std::span(all), {});
    for (size_t r = 0; r < all.size(); ++r) {
      expect_same_bits(all[r].value, value(seed, members[r], 0), r);
      if (all[r].rank != members[r]) throw std::runtime_error("an exchanged value is at another rank's place");
    }
  }

  void run(int collectives) {
    for (int n = 0; n < collectives; ++n) {
      const size_t count = kSizes[common(std::size(kSizes))];
      const uint64_t kind = common(6), seed = shared();
      delay();
      switch (kind) {
        case 0: all_gather(count, seed); break;
        case 1: reduce_scatter(count, seed); break;
        case 2: all_reduce(count, seed); break;
        case 3: broadcast(count, seed); break;
        case 4: exchange(seed); break;
        default: communicator.barrier({}); break;
      }
    }
  }
};

Sequence sequence(Communicator& communicator, std::vector<int> members, uint64_t seed) {
  const auto own = seed * 1000 + static_cast<uint64_t>(members[static_cast<size_t>(communicator.rank())]);
  return {communicator, std::move(members), std::mt19937_64(seed), std::mt19937_64(own)};
}

std::vector<int> first_ranks(int count) {
  std::vector<int> ranks;
  for (int r = 0; r < count; ++r) ranks.push_back(r);
  return ranks;
}

void expect_no_errors(const std::vector<std::exception_ptr>& errors) {
  for (size_t rank = 0; rank < errors.size(); ++rank) EXPECT_EQ(text(errors[rank]), "") << "on rank " << rank;
}

class Collectives : public testing::TestWithParam<int> {};

TEST_P(Collectives, equal_a_sequential_computation) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const size_t streaming_bytes = seed == 1 ? 0 : 4096;  // with stores past the caches for all but the smallest
    expect_no_errors(
        run_ranks({.ranks = GetParam(), .streaming_bytes = streaming_bytes},
                  [&](Communicator& communicator) { sequence(communicator, first_ranks(GetParam()), seed).run(40); }));
  }
}

// Rows and columns of a mesh, with the groups' ranks in another order than the ranks' own, used in turns with the
// whole.
TEST_P(Collectives, work_in_groups_of_ranks) {
  const int ranks = GetParam();
  for (int columns = 1; columns <= ranks; ++columns) {
    if (ranks % columns != 0) continue;
    expect_no_errors(run_ranks({.ranks = ranks}, [&](Communicator& all) {
      std::vector<int> row, column;
      for (int r = 0; r < ranks; ++r) {
        if (r / columns == all.rank() / columns) row.insert(row.begin(), r);
        if (r % columns == all.rank() % columns) column.push_back(r);
      }
      const auto along = all.group(row), across = all.group(column), again = all.group(column);
      for (uint64_t round = 0; round < 2; ++round) {
        sequence(*along, row, 10 * round + static_cast<uint64_t>(row.back()) * 100 + 1).run(6);
        sequence(*across, column, 10 * round + static_cast<uint64_t>(column.front()) * 100 + 2).run(6);
        sequence(all, first_ranks(ranks), round).run(3);
        sequence(*again, column, round).run(3);
      }
    }));
  }
}

// A communicator and its group are independent, so a rank may use them on two threads.
TEST_P(Collectives, run_on_two_threads_per_rank) {
  const std::vector<int> everybody = first_ranks(GetParam());
  expect_no_errors(run_ranks({.ranks = GetParam(), .threads_per_rank = 2}, [&](Communicator& communicator) {
    const auto second = communicator.group(everybody);
    std::exception_ptr error;
    std::thread worker([&] {
      try {
        sequence(*second, everybody, 7).run(25);
      } catch (...) {
        error = std::current_exception();
      }
    });
    sequence(communicator, everybody, 8).run(25);
    worker.join();
    if (error) std::rethrow_exception(error);
  }));
}

// Whole numbers of rank r's i-th place, small enough that their sums are exact in bf16 too.
float whole_number(int rank, size_t i) {
  return static_cast<float>((i * 7 + static_cast<size_t>(rank) * 5) % 16);
}

template <class Value>
std::vector<Value> whole_numbers(int rank, size_t count) {
  std::vector<Value> values;
  for (size_t i = 0; i < count; ++i) values.push_back(Value(whole_number(rank, i)));
  return values;
}

float sum_of_whole_numbers(int ranks, size_t i) {
  float sum = 0;
  for (int r = 0; r < ranks; ++r) sum += whole_number(r, i);
  return sum;
}

template <class Value>
constexpr Dtype kDtypeOf = std::is_same_v<Value, Bf16> ? Dtype::bf16 : Dtype::fp32;

template <class Value>
void expect_sums(const Value* values, size_t first, size_t count, int ranks, float start) {
  for (size_t i = 0; i < count; ++i) {
    expect_same_bits(static_cast<float>(values[i]), start + sum_of_whole_numbers(ranks, first + i), i);
  }
}

template <class In, class Out>
void reduce_scatter_whole_numbers(Communicator& all, size_t count) {
  const auto first = static_cast<size_t>(all.rank()) * count;
  const std::vector<In> input = whole_numbers<In>(all.rank(), count * static_cast<size_t>(all.size()));
  std::vector<Out> output(count, Out(3.0F));
  all.reduce_scatter(input.data(), kDtypeOf<In>, output.data(), kDtypeOf<Out>, count, {.add_to_output = true}, {});
  expect_sums(output.data(), first, count, all.size(), 3.0F);
}

// reduce_test.cpp looks at every bit; here it is about each rank's place in buffers of either format.
TEST_P(Collectives, reduce_in_every_format) {
  expect_no_errors(run_ranks({.ranks = GetParam(), .streaming_bytes = 65536}, [](Communicator& all) {
    for (const size_t count : kSizes) {
      reduce_scatter_whole_numbers<float, float>(all, count);
      reduce_scatter_whole_numbers<float, Bf16>(all, count);
      reduce_scatter_whole_numbers<Bf16, float>(all, count);
      reduce_scatter_whole_numbers<Bf16, Bf16>(all, count);
      std::vector<Bf16> values = whole_numbers<Bf16>(all.rank(), count);
      all.all_reduce(values.data(), values.data(), Dtype::bf16, count, {}, {});
      expect_sums(values.data(), 0, count, all.size(), 0.0F);
    }
  }));
}

INSTANTIATE_TEST_SUITE_P(ranks, Collectives, testing::Values(1, 2, 3, 4, 5, 6, 7, 8, 11));

}  // namespace
}  // namespace reshard::comm
