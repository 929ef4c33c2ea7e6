// Ranks that disagree, throw, return or hang end every other rank's collective with an error that names them, soon, and
// without touching memory that is gone.

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <random>
#include <vector>

#include "tests/comm/ranks.h"
#include "tests/prompt.h"

namespace reshard::comm {
namespace {

using std::chrono::duration;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr Tag kBlock3{.unit = 3, .unit_name = "h.3", .dtype = Dtype::fp32};
constexpr Tag kBlock4{.unit = 4, .unit_name = "h.4", .dtype = Dtype::fp32};

double seconds_since(steady_clock::time_point start) {
  return duration<double>(steady_clock::now() - start).count();
}

ErrorCode code(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& caught) {
    return caught.code();
  }
}

void gather(Communicator& communicator, const Tag& tag, size_t bytes = 64) {
  const std::vector<char> shard(bytes);
  std::vector<char> whole(bytes * static_cast<size_t>(communicator.size()));
  communicator.all_gather(shard.data(), bytes, whole.data(), tag);
}

// Each case: what rank 1 does where all others gather unit h.3 (64 bytes), and how its side reads in the error.
struct Disagreement {
  const char* side;
  void (*call)(Communicator&);
};

class Disagree : public testing::TestWithParam<Disagreement> {};

TEST_P(Disagree, names_both_ranks_on_all_ranks) {
  for (const int ranks : {2, 3, 5}) {
    if (!is_rank(ranks)) continue;
    const auto start = steady_clock::now();
    const auto errors = run_ranks({.ranks = ranks}, [](Communicator& communicator) {
      communicator.barrier({});
      communicator.rank() == 1 ? GetParam().call(communicator) : gather(communicator, kBlock3);
    });
    EXPECT_LT(std::chrono::duration<double>(seconds_since(start)), tests::kPrompt);
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(text(errors[static_cast<size_t>(rank)]),
                "rank " + std::to_string(rank) +
                    ": ranks 0 and 1 disagree in collective 2: rank 0 is in all-gather of unit h.3 (64 bytes, fp32), "
                    "rank 1 is in " +
                    GetParam().side + " (every rank must run the same units in the same order)");
      EXPECT_EQ(code(errors[static_cast<size_t>(rank)]), ErrorCode::communication);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    kinds, Disagree,
    testing::Values(
        Disagreement{"all-gather of unit h.4 (64 bytes, fp32)", [](Communicator& c) { gather(c, kBlock4); }},
        Disagreement{"all-gather of unit h.3 (65 bytes, fp32)", [](Communicator& c) { gather(c, kBlock3, 65); }},
        Disagreement{"all-gather of unit h.3 (64 bytes, bf16)",
                     [](Communicator& c) { gather(c, {.unit = 3, .unit_name = "h.3", .dtype = Dtype::bf16}); }},
        Disagreement{"reduce-scatter of unit h.4 (4,096 bytes, fp32)",
                     [](Communicator& c) {
                       const std::vector<float> input(1024 * static_cast<size_t>(c.size()));
                       std::vector<float> output(1024);
                       c.reduce_scatter(input.data(), Dtype::fp32, output.data(), Dtype::fp32, 1024, {}, kBlock4);
                     }},
        Disagreement{"reduce-scatter of unit h.3 (64 bytes, bf16 to fp32)",
                     [](Communicator& c) {
                       const std::vector<Bf16> input(32 * static_cast<size_t>(c.size()));
                       std::vector<float> output(32);
                       c.reduce_scatter(input.data(), Dtype::bf16, output.data(), Dtype::fp32, 32, {}, kBlock3);
                     }},
        Disagreement{"broadcast of the seed (root 1, 4 bytes, bytes)",
                     [](Communicator& c) {
                       int seed = 1;
                       c.broadcast(&seed, sizeof(seed), 1, {.unit_name = "the seed"});
                     }},
        Disagreement{"barrier (0 bytes, bytes)", [](Communicator& c) { c.barrier({}); }}));

// The same bytes of the same unit, added in another format on rank 1.
TEST(Disagreements, name_the_formats_of_a_reduction) {
  if (!is_rank(2)) GTEST_SKIP();
  const auto errors = run_ranks({.ranks = 2}, [](Communicator& communicator) {
    const std::vector<Bf16> input(64);
    std::vector<float> output(32);
    const Dtype output_dtype = communicator.rank() == 1 ? Dtype::bf16 : Dtype::fp32;
    communicator.reduce_scatter(input.data(), Dtype::bf16, output.data(), output_dtype, 32, {}, kBlock3);
  });
  EXPECT_EQ(
      text(errors[1]),
      "rank 1: ranks 0 and 1 disagree in collective 1: rank 0 is in reduce-scatter of unit h.3 (64 bytes, bf16 to "
      "fp32), rank 1 is in reduce-scatter of unit h.3 (64 bytes, bf16) (every rank must run the same units in the "
      "same order)");
}

TEST(RankFails, others_get_its_message_promptly) {
  for (const int ranks : {2, 3, 8}) {
    if (!is_rank(ranks)) continue;
    std::vector<double> seconds(static_cast<size_t>(ranks));
    const auto errors = run_ranks({.ranks = ranks}, [&](Communicator& communicator) {
      communicator.barrier({});
      const auto thrown = steady_clock::now() + milliseconds(60);  // the others sleep by then
      if (communicator.rank() == 1) {
        std::this_thread::sleep_until(thrown);
        throw std::runtime_error("loss is NaN");
      }
      try {
        gather(communicator, kBlock3);
      } catch (const Error&) {
        seconds[static_cast<size_t>(communicator.rank())] = seconds_since(thrown);
        throw;
      }
    });
    for (int rank = 0; rank < ranks; ++rank) {
      if (rank == 1) continue;
      EXPECT_EQ(text(errors[static_cast<size_t>(rank)]),
                "rank " + std::to_string(rank) +
                    ", all-gather of unit h.3: rank 1 failed: loss is NaN (mend what ended rank 1)");
      EXPECT_EQ(code(errors[static_cast<size_t>(rank)]), ErrorCode::rank_failed);
      EXPECT_LT(std::chrono::duration<double>(seconds[static_cast<size_t>(rank)]), tests::kPrompt);
    }
  }
}

// Ranks 0 and 1 wait in a group that the failing rank is not in: rank 2, which they wait for, never comes.
TEST(RankFails, it_ends_groups_that_it_is_not_in) {
  if (!is_rank(4)) GTEST_SKIP();
  const auto errors = run_ranks({.ranks = 4}, [](Communicator& communicator) {
    const int members[] = {0, 1, 2};
    if (communicator.rank() == 3) throw std::runtime_error("out of data");
    const auto group = communicator.group(members);
    if (communicator.rank() != 2) group->barrier({});
    communicator.barrier({});
  });
  EXPECT_EQ(text(errors[0]), "rank 0, barrier: rank 3 failed: out of data (mend what ended rank 3)");
  EXPECT_EQ(text(errors[1]), "rank 1, barrier: rank 3 failed: out of data (mend what ended rank 3)");
  EXPECT_EQ(text(errors[2]), "rank 2, barrier: rank 3 failed: out of data (mend what ended rank 3)");
}

TEST(RankLeaves, ranks_that_wait_for_it_get_an_error_that_names_it) {
  if (!is_rank(2)) GTEST_SKIP();
  const auto errors = run_ranks({.ranks = 2}, [](Communicator& communicator) {
    communicator.barrier({});
    if (communicator.rank() == 1) return;
    gather(communicator, kBlock3);
  });
  EXPECT_EQ(text(errors[0]),
            "rank 0, all-gather of unit h.3: rank 1 returned while rank 0 waits for it in all-gather of unit h.3 "
            "(every rank must run the same steps)");
  EXPECT_EQ(code(errors[0]), ErrorCode::rank_failed);
  EXPECT_EQ(text(errors[1]), "");
}

TEST(RankLeaves, the_last_collective_still_ends_well_for_the_others) {
  const int rounds = elsewhere.run ? 30 : 300;  // processes begin slowly
  for (int round = 0; round < rounds; ++round) {
    const auto errors = run_ranks({.ranks = 3}, [](Communicator& communicator) { gather(communicator, kBlock3); });
    for (const auto& error : errors) ASSERT_EQ(text(error), "");
  }
}

TEST(RankHangs, others_get_an_error_that_names_it_after_the_timeout) {
  if (!is_rank(3)) GTEST_SKIP();
  const auto start = steady_clock::now();
  const auto errors = run_ranks({.ranks = 3, .timeout_seconds = 0.2}, [](Communicator& communicator) {
    communicator.barrier({});
    if (communicator.rank() == 1) std::this_thread::sleep_for(milliseconds(500));
    gather(communicator, kBlock3);
  });
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(
        text(errors[static_cast<size_t>(rank)]),
        "rank " + std::to_string(rank) +
            ", all-gather of unit h.3: rank 1 did not come to all-gather of unit h.3, collective 2, within 0.2 s (see what rank 1 "
            "is doing, or allow more time if it only computes for long)");
    EXPECT_EQ(code(errors[static_cast<size_t>(rank)]), ErrorCode::communication);
  }
  EXPECT_LT(std::chrono::duration<double>(seconds_since(start)), tests::kPrompt);
}

// A rank fails from another thread at a random moment while all are in collectives. Whoever gets the error frees its
// buffers at once, and unmapped or reused memory that a peer still reads is what ASan and TSan would report.
TEST(RankFails, nobody_reads_the_buffers_of_a_rank_that_gave_up) {
  if (!is_rank(4)) GTEST_SKIP();
  for (unsigned seed = 0; seed < 60; ++seed) {
    const auto errors = run_ranks({.ranks = 4}, [&](Communicator& communicator) {
      std::thread saboteur;
      if (communicator.rank() == 2) {
        saboteur = std::thread([&] {
          std::this_thread::sleep_for(std::chrono::microseconds(std::mt19937(seed)() % 2000));
          communicator.fail("interrupted from outside");
        });
      }
      try {
        for (;;) {
          std::vector<float> input(40000, 1.0F);
          communicator.all_reduce(input.data(), input.data(), Dtype::fp32, input.size(), {}, kBlock3);
          if (input[seed] != 4.0F) throw std::runtime_error("a wrong sum");
          std::fill(input.begin(), input.end(), -1.0F);
        }
      } catch (const std::exception&) {
        if (saboteur.joinable()) saboteur.join();
        throw;
      }
    });
    for (int rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(text(errors[static_cast<size_t>(rank)]),
                "rank " + std::to_string(rank) +
                    ", all-reduce of unit h.3: rank 2 failed: interrupted from outside (mend what ended rank 2)");
    }
  }
}

TEST(Failures, every_later_collective_fails_too) {
  if (!is_rank(2)) GTEST_SKIP();
  const auto errors = run_ranks({.ranks = 2}, [](Communicator& communicator) {
    if (communicator.rank() == 1) throw std::runtime_error("first");
    EXPECT_THROW(gather(communicator, kBlock3), Error);
    EXPECT_THROW(communicator.barrier({}), Error);
    const int alone[] = {0};
    communicator.group(alone)->barrier({.unit_name = "nobody else"});
  });
  EXPECT_EQ(text(errors[0]), "rank 0, barrier of nobody else: rank 1 failed: first (mend what ended rank 1)");
}

}  // namespace
}  // namespace reshard::comm
