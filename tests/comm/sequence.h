#pragma once

// A random sequence of collectives that all derive from one seed, with random delays of each rank's own, each result
// compared with a plain sequential computation. A wrong value throws std::runtime_error.

#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "tests/comm/ranks.h"

namespace reshard::comm {

inline constexpr size_t kSizes[] = {0, 1, 2, 3, 7, 15, 16, 17, 63, 64, 101, 1021, 1024, 1031, 4096, 10007};

// Rank r's i-th value of the n-th collective: magnitudes differ widely, so that another order of additions shows.
inline float value(uint64_t seed, int rank, size_t i) {
  uint64_t x = seed * 0x9e3779b97f4a7c15 + static_cast<uint64_t>(rank) * 0xd1b54a32d192ed03 + i * 0x2545f4914f6cdd1d;
  x = (x ^ (x >> 31)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 29)) * 0x94d049bb133111eb;
  const double fraction = static_cast<double>(x >> 11) * 0x1p-53 - 0.5;
  return static_cast<float>(std::ldexp(fraction, static_cast<int>(x % 24)));
}

// Bottom up, as the header words it, in place.
inline float tree_sum(float* terms, size_t count) {
  while (count > 1) {
    size_t pairs = 0;
    for (size_t i = 0; i + 1 < count; i += 2) terms[pairs++] = terms[i] + terms[i + 1];
    if (count % 2 == 1) terms[pairs++] = terms[count - 1];
    count = pairs;
  }
  return terms[0];
}

inline constexpr size_t kMostRanks = 16;

inline float expected(uint64_t seed, const std::vector<int>& ranks, size_t i, const ReduceOptions& options,
                      float before) {
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

inline void expect_same_bits(float actual, float wanted, size_t i) {
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
    run(collectives, [] {});
  }

  // Calls before() ahead of each collective.
  template <class Before>
  void run(int collectives, const Before& before) {
    for (int n = 0; n < collectives; ++n) {
      before();
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

inline Sequence sequence(Communicator& communicator, std::vector<int> members, uint64_t seed) {
  const auto own = seed * 1000 + static_cast<uint64_t>(members[static_cast<size_t>(communicator.rank())]);
  return {communicator, std::move(members), std::mt19937_64(seed), std::mt19937_64(own)};
}

inline std::vector<int> first_ranks(int count) {
  std::vector<int> ranks;
  for (int r = 0; r < count; ++r) ranks.push_back(r);
  return ranks;
}

inline void expect_no_errors(const std::vector<std::exception_ptr>& errors) {
  for (size_t rank = 0; rank < errors.size(); ++rank) EXPECT_EQ(text(errors[rank]), "") << "on rank " << rank;
}

}  // namespace reshard::comm
