// Every collective gives exactly what its header says, bit for bit, for any number of ranks, any size and any timing.
// Method: ranks as threads run a random sequence of collectives that all derive from one seed, with random delays of
// their own, and compare each result with a plain sequential computation.

#include <gtest/gtest.h>

#include <type_traits>
#include <vector>

#include "tests/comm/sequence.h"

namespace reshard::comm {
namespace {

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

// More than goes through a process's window at once, and ends that fill no piece of it.
TEST_P(Collectives, move_more_than_a_buffer_holds) {
  if (GetParam() > 4) GTEST_SKIP() << "the same pieces, for more ranks";
  expect_no_errors(run_ranks({.ranks = GetParam()}, [&](Communicator& communicator) {
    Sequence all = sequence(communicator, first_ranks(GetParam()), 5);
    for (const size_t count : {131071, 131072, 131073, 300001}) {
      all.all_gather(count, all.shared());
      all.reduce_scatter(count, all.shared());
      all.all_reduce(count, all.shared());
      all.broadcast(count, all.shared());
    }
  }));
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
