// Ranks that interrupt at random points of random collectives, on two threads and in groups, recover and then compute
// what they always did; and the words in which everybody learns of it.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/comm/sequence.h"
#include "tests/prompt.h"

namespace reshard::comm {
namespace {

using std::chrono::duration;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// What a rank throws that interrupted the others.
struct Stopped {};

// One rank with all its communicators: rows and columns of a mesh, and a group of all for its second thread.
struct Member {
  Member(Communicator& communicator, int columns) : all(communicator), everybody(first_ranks(all.size())) {
    for (int r = 0; r < all.size(); ++r) {
      if (r / columns == all.rank() / columns) row.push_back(r);
      if (r % columns == all.rank() % columns) column.push_back(r);
    }
    along = all.group(row), across = all.group(column), beside = all.group(everybody);
  }

  // Some collectives of every communicator; `before` is called ahead of each on this thread.
  template <class Before>
  void work(uint64_t seed, const Before& before) {
    std::exception_ptr error;
    std::thread second([&] {
      try {
        sequence(*beside, everybody, seed + 7).run(4);
      } catch (...) {
        error = std::current_exception();
      }
    });
    try {
      sequence(*along, row, seed + static_cast<uint64_t>(row.front()) * 100 + 1).run(3, before);
      sequence(all, everybody, seed).run(2, before);
      sequence(*across, column, seed + static_cast<uint64_t>(column.front()) * 100 + 2).run(3, before);
    } catch (...) {
      second.join();
      throw;
    }
    second.join();
    if (error) std::rethrow_exception(error);
  }

  Communicator& all;
  std::vector<int> everybody, row, column;
  std::unique_ptr<Communicator> along, across, beside;
};

// Whom a round's interruption may come from: a rank on its own thread, or at a random moment on another.
void interrupted_round(Member& member, uint64_t seed, std::mt19937_64& own, std::atomic<int>& interruptions) {
  const std::string message = "round " + std::to_string(seed);
  const uint64_t kind = own() % 6;  // 0: ahead of a collective, 1: from another thread
  int until = kind == 0 ? static_cast<int>(own() % 9) : -1;
  std::thread saboteur;
  if (kind == 1) {
    ++interruptions;
    const microseconds pause(own() % 300);
    saboteur = std::thread([&, pause] {
      std::this_thread::sleep_for(pause);
      member.all.interrupt(message);
    });
  }
  try {
    member.work(seed, [&] {
      member.all.check();
      if (until-- != 0) return;
      ++interruptions;
      member.across->interrupt(message);
      member.all.interrupt("too late to be told");
      throw Stopped();
    });
  } catch (const Stopped&) {
  } catch (const Error& error) {
    if (error.code() != ErrorCode::rank_failed || error.message().find(message) == std::string::npos) {
      throw std::runtime_error("another error than the interruption's: " + error.message());
    }
  }
  if (saboteur.joinable()) saboteur.join();
}

class Recovery : public testing::TestWithParam<int> {};

TEST_P(Recovery, makes_every_communicator_work_again) {
  if (!is_rank(GetParam())) GTEST_SKIP();
  const int ranks = GetParam(), columns = ranks % 2 == 0 ? 2 : 1;
  constexpr uint64_t kRounds = 150;
  std::atomic<int> interruptions{0};
  expect_no_errors(
      run_ranks({.ranks = ranks, .threads_per_rank = 2, .streaming_bytes = 4096}, [&](Communicator& communicator) {
        Member member(communicator, columns);
        std::mt19937_64 own(static_cast<uint64_t>(communicator.rank()) + 1);
        for (uint64_t round = 1; round <= kRounds; ++round) {
          interrupted_round(member, 1000 * round, own, interruptions);
          communicator.recover();
          if (communicator.interrupted()) throw std::runtime_error("the interruption outlived its recovery");
          if (round % 3 == 0) member.work(1000 * round, [] {});
          communicator.barrier({});  // the next round's interruption is not for this one
        }
      }));
  EXPECT_GT(sum_over_processes(ranks, interruptions.load()), 40);
}

INSTANTIATE_TEST_SUITE_P(ranks, Recovery, testing::Values(1, 2, 3, 4, 6));

// Whoever waits at the end of a collective that a peer has left returns from it too, though that peer interrupts at
// once: the ranks never differ in whether it took place.
TEST(Interruption, a_collective_that_returned_at_one_rank_returned_at_all) {
  if (!is_rank(4)) GTEST_SKIP();
  constexpr int kRanks = 4, kRounds = 1500;
  std::atomic<int> returned{0};
  expect_no_errors(run_ranks({.ranks = kRanks}, [&](Communicator& communicator) {
    for (int round = 0; round < kRounds; ++round) {
      int value = round, all[kRanks];
      try {
        communicator.exchange(&value, sizeof(value), all, {});
        ++returned;
        if (communicator.rank() == round % kRanks) communicator.interrupt("after it");
      } catch (const Error&) {
      }
      communicator.recover();
    }
  }));
  EXPECT_EQ(sum_over_processes(kRanks, returned.load()), kRanks * kRounds);
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// Ranks 0 and 1 wait, for a rank that never comes, in a group that the interrupting rank 3 is not in.
TEST(Interruption, reaches_every_rank_promptly) {
  expect_no_errors(run_ranks({.ranks = 4}, [&](Communicator& communicator) {
    const int rank = communicator.rank(), members[] = {0, 1, 2};
    const std::string name = "rank " + std::to_string(rank);
    const auto group = rank == 3 ? nullptr : communicator.group(members);
    for (int round = 0; round < 5; ++round) {
      communicator.check();
      communicator.barrier({});
      const auto stopped = steady_clock::now() + milliseconds(50);  // the others sleep by then
      if (rank == 3) {
        std::this_thread::sleep_until(stopped);
        communicator.interrupt("loss is NaN");
        communicator.interrupt("it is still NaN");
      } else if (rank == 2) {
        while (!communicator.interrupted()) std::this_thread::yield();
      } else {
        EXPECT_EQ(error_of([&] { group->barrier({.unit = 3, .unit_name = "h.3"}); }),
                  name + ", barrier of unit h.3: rank 3 failed: loss is NaN (mend what ended rank 3)");
        EXPECT_LT(steady_clock::now() - stopped, tests::kPrompt);
      }
      EXPECT_EQ(error_of([&] { communicator.barrier({}); }),
                name + ", barrier: rank 3 failed: loss is NaN (mend what ended rank 3)");
      EXPECT_EQ(error_of([&] { communicator.check(); }),
                name + ": rank 3 failed: loss is NaN (mend what ended rank 3)");
      communicator.recover();
      if (group != nullptr) group->barrier({});
    }
  }));
}

TEST(Interruption, may_be_followed_by_a_failure_that_ends_the_recovery) {
  run_ranks({.ranks = 3}, [&](Communicator& communicator) {
    const int rank = communicator.rank();
    if (rank == 1) communicator.interrupt("loss is NaN");
    const std::string name = "rank " + std::to_string(rank);
    EXPECT_EQ(error_of([&] {
                for (;;) communicator.barrier({});
              }),
              name + ", barrier: rank 1 failed: loss is NaN (mend what ended rank 1)");
    if (rank == 0) {
      std::this_thread::sleep_for(milliseconds(50));
      communicator.fail("no memory for a retry");
    }
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(error_of([&] { communicator.recover(); }),
                name + ", recovery: rank 0 failed: no memory for a retry (mend what ended rank 0)");
    }
    EXPECT_EQ(error_of([&] { communicator.barrier({}); }),
              name + ", barrier: rank 1 failed: loss is NaN (mend what ended rank 1)");
  });
}

TEST(Interruption, changes_nothing_after_a_failure) {
  run_ranks({.ranks = 2}, [&](Communicator& communicator) {
    if (communicator.rank() == 0) {
      communicator.fail("first");
      communicator.interrupt("second");
    }
    const std::string name = "rank " + std::to_string(communicator.rank());
    EXPECT_EQ(error_of([&] { communicator.barrier({}); }),
              name + ", barrier: rank 0 failed: first (mend what ended rank 0)");
    EXPECT_EQ(error_of([&] { communicator.recover(); }),
              name + ", recovery: rank 0 failed: first (mend what ended rank 0)");
  });
}

TEST(RecoveryFails, when_a_rank_has_returned) {
  run_ranks({.ranks = 3}, [&](Communicator& communicator) {
    if (communicator.rank() == 2) return;
    const std::string error = error_of([&] { communicator.recover(); });
    const std::string rank = std::to_string(communicator.rank());
    const auto expected = [&](const char* waiting) {
      return "rank " + rank + ", recovery: rank 2 returned while rank " + waiting +
             " waits for it in the recovery (every rank must run the same steps)";
    };
    EXPECT_TRUE(error == expected("0") || error == expected("1")) << error;
  });
}

TEST(RecoveryFails, when_a_rank_does_not_come_in_time) {
  const auto start = steady_clock::now();
  run_ranks({.ranks = 3, .timeout_seconds = 0.2}, [&](Communicator& communicator) {
    if (communicator.rank() == 1) {
      std::this_thread::sleep_for(milliseconds(1500));
    }
    EXPECT_EQ(error_of([&] { communicator.recover(); }),
              "rank " + std::to_string(communicator.rank()) +
                  ", recovery: rank 1 did not come to the recovery within 0.2 s (see what rank 1 is doing, or allow "
                  "more time if it only computes for long)");
  });
  EXPECT_LT(steady_clock::now() - start, tests::kPrompt);
}

TEST(RecoveryOnce, mends_a_disagreement) {
  expect_no_errors(run_ranks({.ranks = 3}, [&](Communicator& communicator) {
    const std::string rank = std::to_string(communicator.rank());
    for (int round = 0; round < 50; ++round) {
      const Tag tag{.unit = communicator.rank() == 1 ? 4 : 3, .unit_name = communicator.rank() == 1 ? "h.4" : "h.3"};
      communicator.barrier({});
      EXPECT_EQ(error_of([&] { communicator.barrier(tag); }),
                "rank " + rank +
                    ": ranks 0 and 1 disagree in collective 2: rank 0 is in barrier of unit h.3 (0 bytes, bytes), rank "
                    "1 is in barrier of unit h.4 (0 bytes, bytes) (every rank must run the same units in the same "
                    "order)");
      communicator.recover();
    }
  }));
}

// Rank 0 has its group before the interruption and keeps it; the others ask for it only afterwards.
TEST(RecoveryOnce, leaves_a_group_for_members_that_had_not_asked_for_it) {
  expect_no_errors(run_ranks({.ranks = 3}, [&](Communicator& communicator) {
    std::unique_ptr<Communicator> group;
    if (communicator.rank() == 0) {
      group = communicator.group(first_ranks(3));
      communicator.interrupt("before the others had it");
    }
    EXPECT_NE(error_of([&] {
                for (;;) communicator.barrier({});
              }),
              "no error");
    communicator.recover();
    if (group == nullptr) group = communicator.group(first_ranks(3));
    sequence(*group, first_ranks(3), 5).run(10);
  }));
}

}  // namespace
}  // namespace reshard::comm
