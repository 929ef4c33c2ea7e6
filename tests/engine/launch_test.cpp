// Ranks that fail, leave early or cannot start: everybody ends, quickly, with an error that names the cause.

#include <atomic>
#include <chrono>

#include <gtest/gtest.h>

#include "reshard/error.h"
#include "tests/engine/toy.h"

namespace reshard {
namespace {

Model two_units() {
  Model model({.name = "root", .parameters = {{"a", {10}}}});
  model.add({.name = "h.0", .parameters = {{"b", {70}}}});
  return model;
}

std::string error_of(const Job& job, const std::function<void(Rank&)>& body) {
  try {
    launch(job, body);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

TEST(Launch, RunsEveryRankOnce) {
  std::atomic<int> sum{0};
  launch(toy::job(4, "zero3"), [&](Rank& rank) {
    EXPECT_EQ(rank.count(), 4);
    sum += 1 << rank.index();
    EXPECT_EQ(rank.exchange(rank.index() * 2.0), (std::vector<double>{0, 2, 4, 6}));
  });
  EXPECT_EQ(sum, 15);
}

TEST(Launch, ARankThatThrowsEndsAllWithItsOwnError) {
  const Model model = two_units();
  const Job job = toy::job(3, "zero3");
  std::atomic<int> others{0};
  const auto begin = std::chrono::steady_clock::now();
  const std::string error = error_of(job, [&](Rank& rank) {
    Runtime runtime(job, model, rank);
    toy::fill(runtime);
    try {
      for (int s = 0; s < 5; ++s)
        runtime.step([&](MicroBatch at) {
          if (at.step == 2 && rank.index() == 1) throw std::runtime_error("the disk is full");
          return toy::Pass(runtime, at)();
        });
    } catch (const Error& failure) {
      EXPECT_EQ(failure.code(), ErrorCode::rank_failed);
      EXPECT_NE(std::string(failure.what()).find("rank 1 failed: the disk is full"), std::string::npos)
          << failure.what();
      ++others;
      throw;
    }
  });
  EXPECT_EQ(error, "rank 1 failed: the disk is full");
  EXPECT_EQ(others, 2);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST(Launch, ARankThatReturnsEarlyIsNamed) {
  const Model model = two_units();
  const Job job = toy::job(2, "zero3");
  const std::string error = error_of(job, [&](Rank& rank) {
    Runtime runtime(job, model, rank);
    toy::fill(runtime);
    for (int s = 0; s < (rank.index() == 1 ? 1 : 3); ++s)
      runtime.step([&](MicroBatch at) { return toy::Pass(runtime, at)(); });
  });
  EXPECT_NE(error.find("rank 1"), std::string::npos) << error;
}

TEST(Launch, RanksWithDifferentUnitsAreAnErrorAndNoHang) {
  const Model model = two_units();
  const Job job = toy::job(2, "zero3");
  const std::string error = error_of(job, [&](Rank& rank) {
    Runtime runtime(job, model, rank);
    toy::fill(runtime);
    runtime.step([&](MicroBatch) {
      runtime.forward({rank.index()}, [](const View&) {});
      return 0.0;
    });
  });
  EXPECT_NE(error.find("root"), std::string::npos) << error;
  EXPECT_NE(error.find("h.0"), std::string::npos) << error;
}

TEST(Launch, WhatARankThrewIsNestedInTheErrorThatNamesIt) {
  try {
    launch(toy::job(1, "zero3"), [](Rank&) { throw std::out_of_range("place 7"); });
    FAIL() << "launch returned";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "rank 0 failed: place 7");
    EXPECT_THROW(std::rethrow_if_nested(error), std::out_of_range);
  }
}

// With overlap, gathers run on a thread of their own while the program exchanges values.
TEST(Launch, RanksExchangeValuesInsideHooks) {
  const Model model = two_units();
  const Job job = toy::job(3, "zero3", 1, true);
  launch(job, [&](Rank& rank) {
    Runtime runtime(job, model, rank);
    toy::fill(runtime);
    for (int s = 0; s < 50; ++s)
      runtime.step([&](MicroBatch at) {
        runtime.forward(kRoot, [&](const View&) {
          EXPECT_EQ(rank.exchange(rank.index() + s), (std::vector<double>{0.0 + s, 1.0 + s, 2.0 + s}));
          runtime.forward({1}, [&](const View& view) { EXPECT_GT(view.parameter(0)[0], -100); });
        });
        runtime.backward(kRoot, [&](const View&) {
          rank.barrier();
          runtime.backward({1}, [](const View&) {});
        });
        return static_cast<double>(at.index);
      });
  });
}

TEST(Launch, AJobOfOtherRanksThanTheLaunchIsRefused) {
  const std::string error = error_of(toy::job(2, "zero3"), [](Rank& rank) {
    const Model model = two_units();
    Runtime runtime(toy::job(4, "zero3"), model, rank);
  });
  EXPECT_EQ(error, "default: the job has 4 ranks and this rank is one of 2 (give launch and Runtime the same job)");
}

TEST(Launch, AProcessOfALauncherIsToldThatRanksAreThreads) {
  Job job = toy::job(1, "zero3");
  job.mesh.ranks = 0;
  setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
  const std::string error = error_of(job, [](Rank&) {});
  unsetenv("OMPI_COMM_WORLD_SIZE");
  EXPECT_EQ(
      error,
      "default: this process is one of 4 (OMPI_COMM_WORLD_SIZE), and this build's ranks are threads of one process "
      "(start one process, and set [mesh] ranks)");
}

TEST(Launch, WhatThisBuildHasNotIsAnError) {
  Job job = toy::job(2, "zero3");
  job.mesh.communicator = "nccl";
  EXPECT_EQ(error_of(job, [](Rank&) {}),
            "default: mesh.communicator = \"nccl\" is not in this build (use \"threads\")");
  job = toy::job(4, "zero3");
  job.mesh.ranks_per_node = 3;
  EXPECT_EQ(error_of(job, [&](Rank& rank) { Runtime(job, two_units(), rank); }),
            "default: mesh.ranks_per_node = 3 does not divide the 4 ranks (use 0 (all of them) or a divisor)");
}

}  // namespace
}  // namespace reshard
