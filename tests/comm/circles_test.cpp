// Ranks in collectives of different groups wait for each other for ever. It is said at once, with every rank's place,
// where a rank is one thread; with more threads the time limit ends it and tells where the late rank waits.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "tests/comm/ranks.h"
#include "tests/prompt.h"

namespace reshard::comm {
namespace {

using std::chrono::steady_clock;

constexpr Tag kHead{.unit = 5, .unit_name = "head", .dtype = Dtype::fp32};
constexpr Tag kNorm{.unit = -1, .unit_name = "gradient norm", .dtype = Dtype::fp32};

void gather_head(Communicator& communicator) {
  char shard[64] = {}, whole[64 * 8];
  communicator.all_gather(shard, sizeof shard, whole, kHead);
}

void norm(Communicator& communicator) {
  float mine = 1, all[8];
  communicator.exchange(&mine, sizeof mine, all, kNorm);
}

TEST(Circles, of_two_ranks_in_two_groups_name_both_places) {
  const auto start = steady_clock::now();
  const auto errors = run_ranks({.ranks = 2}, [](Communicator& communicator) {
    const int members[] = {0, 1};
    const auto group = communicator.group(members);
    communicator.barrier({});
    communicator.rank() == 0 ? gather_head(communicator) : norm(*group);
  });
  const std::string why =
      "the ranks wait for each other without end: rank 0 waits in all-gather of unit head for rank 1, rank 1 waits in "
      "exchange of gradient norm for rank 0 (every rank must run the same units in the same order)";
  EXPECT_EQ(text(errors[0]), "rank 0, all-gather of unit head: " + why);
  EXPECT_EQ(text(errors[1]), "rank 1, exchange of gradient norm: " + why);
  EXPECT_LT(steady_clock::now() - start, tests::kPrompt);
}

// Each rank is in the group with the next one, and rank 3 waits for one of the three without being in the circle.
TEST(Circles, of_three_ranks_end_those_who_wait_for_them_too) {
  const auto errors = run_ranks({.ranks = 4}, [](Communicator& communicator) {
    const int rank = communicator.rank();
    std::unique_ptr<Communicator> pairs[3];
    for (int first = 0; first < 3; ++first) {
      const int low = std::min(first, (first + 1) % 3), high = std::max(first, (first + 1) % 3);
      const int members[] = {low, high};
      if (rank == low || rank == high) pairs[first] = communicator.group(members);
    }
    communicator.barrier({});
    rank == 3 ? communicator.barrier({}) : norm(*pairs[rank]);
  });
  for (int rank = 0; rank < 4; ++rank) {
    const std::string place = rank == 3 ? "barrier" : "exchange of gradient norm";
    EXPECT_EQ(text(errors[static_cast<size_t>(rank)]),
              "rank " + std::to_string(rank) + ", " + place +
                  ": the ranks wait for each other without end: rank 0 waits in exchange of gradient norm for rank 1, "
                  "rank 1 waits in exchange of gradient norm for rank 2, rank 2 waits in exchange of gradient norm for "
                  "rank 0 (every rank must run the same units in the same order)");
  }
}

TEST(Circles, are_not_seen_in_a_rank_that_is_only_slow) {
  const auto errors = run_ranks({.ranks = 3}, [](Communicator& communicator) {
    const int members[] = {0, 1, 2};
    const auto group = communicator.group(members);
    for (int round = 0; round < 2; ++round) {
      for (int late = 0; late < 3; ++late) {
        if (communicator.rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(120));
        norm(round == 0 ? communicator : *group);
      }
    }
  });
  for (const auto& error : errors) EXPECT_EQ(text(error), "");
}

// The other thread of rank 1 could still come, so only the time limit ends it.
TEST(Circles, of_ranks_with_two_threads_end_after_the_time_limit_and_tell_the_place) {
  const auto errors =
      run_ranks({.ranks = 2, .timeout_seconds = 0.3, .threads_per_rank = 2}, [](Communicator& communicator) {
        const int members[] = {0, 1};
        const auto group = communicator.group(members);
        communicator.barrier({});
        communicator.rank() == 0 ? gather_head(communicator) : norm(*group);
      });
  const std::string first = text(errors[0]);
  EXPECT_TRUE(first.find("rank 1 did not come to all-gather of unit head, collective 2, within 0.3 s; rank 1 waits in "
                         "exchange of gradient norm for rank 0 (") != std::string::npos ||
              first.find("rank 0 did not come to exchange of gradient norm, collective 1, within 0.3 s; rank 0 waits "
                         "in all-gather of unit head for rank 1 (") != std::string::npos)
      << first;
}

}  // namespace
}  // namespace reshard::comm
