// Ranks that fail, leave early or disagree: everybody ends, within a second, with an error that names the cause.

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <fstream>
#include <limits>
#include <utility>

#include <sys/resource.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/planning.h"
#include "reshard/error.h"
#include "tests/engine/toy.h"
#include "tests/prompt.h"

namespace reshard {
namespace {

std::string error_of(const Job& job, const std::function<void(Rank&)>& body) {
  const auto begin = std::chrono::steady_clock::now();
  std::string text = "no error";
  try {
    launch(job, body);
  } catch (const std::exception& error) {
    text = error.what();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, tests::kPrompt) << text;
  return text;
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
  const Model model = toy::two_units();
  const Job job = toy::job(3, "zero3");
  std::atomic<int> others{0};
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
}

TEST(Launch, ARankThatReturnsEarlyIsNamedWithWhatTheOthersWaitFor) {
  const Model model = toy::two_units();
  for (const bool overlap : {false, true}) {
    const Job job = toy::job(2, "zero3", 1, overlap);
    const auto returning_after = [&](int steps) {
      return error_of(job, [&](Rank& rank) {
        if (steps < 0 && rank.index() == 1) return;
        Runtime runtime(job, model, rank);
        toy::fill(runtime);
        for (int s = 0; s < (rank.index() == 1 ? steps : steps + 2); ++s)
          runtime.step([&](MicroBatch at) { return toy::Pass(runtime, at)(); });
      });
    };
    const std::string before = "rank 0, ", after = ": rank 1 returned while rank 0 waits for it in ",
                      remedy = " (every rank must run the same steps)";
    EXPECT_EQ(returning_after(-1), before + "exchange" + after + "exchange" + remedy);
    EXPECT_EQ(returning_after(0), before + "all-gather of unit root" + after + "all-gather of unit root" + remedy);
    EXPECT_EQ(returning_after(1), before + "all-gather of unit root" + after + "all-gather of unit root" + remedy);
  }
}

// Two ranks gather different units: `first` of each in turn.
std::string running(const Model& model, std::array<int, 2> first, bool overlap) {
  const Job job = toy::job(2, "zero3", 1, overlap);
  return error_of(job, [&](Rank& rank) {
    Runtime runtime(job, model, rank);
    toy::fill(runtime);
    runtime.step([&](MicroBatch) {
      runtime.forward({first[static_cast<std::size_t>(rank.index())]}, [](const View&) {});
      return 0.0;
    });
  });
}

TEST(Launch, RanksThatRunDifferentUnitsAreNamedWithThem) {
  Model model = toy::two_units();
  model.add({.name = "h.1", .parameters = {{"c", {70}}}});  // shaped like h.0
  const std::string remedy = " (every rank must run the same units in the same order)";
  for (const bool overlap : {false, true}) {
    EXPECT_EQ(running(model, {0, 1}, overlap),
              "rank 0: ranks 0 and 1 disagree in collective 1: rank 0 is in all-gather of unit root (256 bytes, fp32), "
              "rank 1 is in all-gather of unit h.0 (256 bytes, fp32)" +
                  remedy);
    EXPECT_EQ(running(model, {2, 1}, overlap),
              "rank 0: ranks 0 and 1 disagree in collective 1: rank 0 is in all-gather of unit h.1 (256 bytes, fp32), "
              "rank 1 is in all-gather of unit h.0 (256 bytes, fp32)" +
                  remedy);
  }
}

TEST(Launch, AGradientNormThatIsNoNumberStopsEveryRankNamingTheStep) {
  const Model model = toy::two_units();
  for (const auto& [number, text] : {std::pair{std::nanf(""), "nan"}, std::pair{-std::nanf(""), "nan"},
                                     std::pair{std::numeric_limits<float>::infinity(), "inf"}}) {
    const float value = number;
    const Job job = toy::job(3, "zero3", 2);
    std::atomic<int> told{0};
    const std::string error = error_of(job, [&](Rank& rank) {
      Runtime runtime(job, model, rank);
      toy::fill(runtime);
      try {
        for (int s = 0; s < 3; ++s)
          runtime.step([&](MicroBatch at) {
            toy::Pass(runtime, at).forward(0);
            runtime.backward(kRoot, [&](const View& view) {
              if (at.step == 1 && at.index == 1 && rank.index() == 2) view.gradient(0)[9] += value;
            });
            return 0.5;
          });
      } catch (const Error& failure) {
        EXPECT_EQ(failure.code(), ErrorCode::numeric);
        ++told;
        throw;
      }
    });
    EXPECT_EQ(error, std::string("the gradient norm is ") + text +
                         " at step 1 (lower [optimizer] lr, set clip_norm, or look at the data of that step)");
    EXPECT_EQ(told, 3);
  }
}

// The bytes of private memory that this process may write to: what RLIMIT_DATA limits.
rlim_t data_bytes() {
  std::ifstream in("/proc/self/statm");
  rlim_t pages = 0;
  for (int field = 0; field < 6; ++field) in >> pages;  // the sixth
  return pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
}

// The machine has too little memory for what each rank would hold under the next strategy.
TEST(Launch, AnErrorWhileParametersAreLaidOutAnewEndsTheRuntime) {
  const Job job = toy::job(2, "zero3");
  Model model({.name = "root", .parameters = {{"a", {10}}}});
  model.add({.name = "h.0", .parameters = {{"b", {int64_t{8} << 20}}}});
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_DATA, &before), 0);
  std::atomic<int> told{0};
  const std::string error = error_of(job, [&](Rank& rank) {
    Runtime runtime(job, model, rank);
    rank.barrier();
    if (rank.first()) {
      const rlimit now{data_bytes() + (rlim_t{8} << 20), before.rlim_max};
      setrlimit(RLIMIT_DATA, &now);
    }
    rank.barrier();
    try {
      runtime.switch_strategy({toy::plugin("replicate"), {}, "test"});
    } catch (const Error&) {
      const std::string over =
          "this runtime failed while it laid parameters out anew for another shard_over (end the run; what it had "
          "learnt since is lost)";
      const auto text = [](const std::function<void()>& use) {
        try {
          use();
        } catch (const Error& failure) {
          return std::string(failure.what());
        }
        return std::string("no error");
      };
      EXPECT_EQ(text([&] { runtime.read("a"); }), over);
      EXPECT_EQ(text([&] { toy::fill(runtime); }), over);
      EXPECT_EQ(text([&] { runtime.evaluate([] {}); }), over);
      EXPECT_EQ(text([&] { runtime.step([](MicroBatch) { return 0.0; }); }), over);
      ++told;
      throw;
    }
  });
  ASSERT_EQ(setrlimit(RLIMIT_DATA, &before), 0);
  EXPECT_TRUE(error.starts_with("memory pool: the system has no memory for a block of 32 MiB (Cannot allocate memory)"))
      << error;
  EXPECT_EQ(told, 2);
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
  const Model model = toy::two_units();
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
    const Model model = toy::two_units();
    Runtime runtime(toy::job(4, "zero3"), model, rank);
  });
  EXPECT_EQ(error, "default: the job has 4 ranks and this rank is one of 2 (give launch and Runtime the same job)");
}

TEST(Launch, AProcessOfALauncherIsToldThatRanksAreThreads) {
  Job job = toy::job(1, "zero3");
  job.mesh.ranks = 0;
  setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
  setenv("OMPI_COMM_WORLD_RANK", "2", 1);
  const std::string error = error_of(job, [](Rank&) {});
  unsetenv("OMPI_COMM_WORLD_SIZE");
  unsetenv("OMPI_COMM_WORLD_RANK");
  EXPECT_EQ(
      error,
      "default: this process is one of 4 that mpirun has started, and this job's ranks are threads of one process "
      "(start one process and set [mesh] ranks, or set communicator = \"mpi\")");
}

TEST(Launch, WhatThisBuildHasNotIsAnError) {
  Job job = toy::job(2, "zero3");
  job.mesh.communicator = "nccl";
  EXPECT_EQ(error_of(job, [](Rank&) {}),
            "default: mesh.communicator = \"nccl\" is not in this build (use \"threads\" or \"mpi\")");
  job = toy::job(4, "zero3");
  job.mesh.ranks_per_node = 3;
  EXPECT_EQ(
      error_of(job, [&](Rank& rank) { Runtime(job, toy::two_units(), rank); }),
      "default: mesh.ranks_per_node = 3 does not divide the 4 ranks (use 0 (all of them) or a divisor: 1, 2 and 4)");
  job.mesh.ranks = 1;
  EXPECT_EQ(error_of(job, [&](Rank& rank) { Runtime(job, toy::two_units(), rank); }),
            "default: mesh.ranks_per_node = 3 does not divide the 1 rank (use 0 (all of them) or a divisor: 1)");
}

// Wherever a plan is made: explain, train and compare make it, and so does a runtime.
TEST(Launch, AGroupThatChangesNothingIsAnError) {
  Job job = toy::job(1, "zero3");
  const auto group_error = [&](const Job::Group& group) {
    job.optimizer.groups = {{"*", 0.5, {}, "job.toml:7:1"}, group};
    return error_of(job, [&](Rank& rank) { Runtime(job, toy::two_units(), rank); });
  };
  EXPECT_EQ(group_error({"nope", 0.5, {}, "job.toml:9:1"}),
            "job.toml:9:1: [[optimizer.group]] match = \"nope\" fits no parameter (the model's parameters: a and b)");
  EXPECT_EQ(group_error({"bb", {}, 0.0, "job.toml:9:1"}),
            "job.toml:9:1: [[optimizer.group]] match = \"bb\" fits no parameter (did you mean \"b\"?)");
  EXPECT_EQ(
      group_error({"*", {}, {}, "job.toml:9:1"}),
      "job.toml:9:1: [[optimizer.group]] match = \"*\" sets neither lr_scale nor weight_decay (set one of them, or "
      "leave the entry out)");
  EXPECT_EQ(group_error({"*", {}, 0.0, "job.toml:9:1"}), "no error");
}

TEST(Launch, AGroupThatFitsNothingThatIsUpdatedIsAnError) {
  Model model({.name = "root",
               .parameters = {{"embed", {64}},
                              {.name = "head", .shape = {64}, .same_as = "embed"},
                              {"base.w", {9}, true, 1.0, false},
                              {"base.b", {9}, true, 1.0, false}}});
  Job job = toy::job(1, "zero3");
  const auto group_error = [&](const std::string& match) {
    job.optimizer.groups = {{match, 0.5, {}, "job.toml:9:1"}};
    return error_of(job, [&](Rank& rank) { Runtime(job, model, rank); });
  };
  const std::string fits = "fits no parameter that is updated: ";
  EXPECT_EQ(group_error("base.w"), "job.toml:9:1: [[optimizer.group]] match = \"base.w\" " + fits +
                                       "\"base.w\" is frozen (leave the entry out)");
  EXPECT_EQ(group_error("base.*"), "job.toml:9:1: [[optimizer.group]] match = \"base.*\" " + fits +
                                       "\"base.w\" is frozen (leave the entry out)");
  EXPECT_EQ(group_error("head"), "job.toml:9:1: [[optimizer.group]] match = \"head\" " + fits +
                                     "\"head\" is another name for \"embed\" (match \"embed\")");
  for (const char* fine : {"embed", "*", "*e*d"}) EXPECT_EQ(group_error(fine), "no error") << fine;
}

// Wherever a plan is made, before any kernel asks for a format that is not there.
TEST(Launch, AFormatThatTheProgramDoesNotComputeInIsRefusedWhereTheJobAsksForIt) {
  Model model = toy::two_units();
  const auto error_in = [&](const Job& job) { return error_of(job, [&](Rank& rank) { Runtime(job, model, rank); }); };
  Job all = toy::job(1, "zero3"), one = all;
  all.precision.param_dtype = "bf16";
  all.places["precision.param_dtype"] = {"job.toml:12:15", false};
  UnitOverride entry{.match = model.name({1}), .where = "job.toml:20:1"};
  entry.param_dtype = {Dtype::bf16, "job.toml:22:1"};
  one.strategy.units = {entry};
  for (const Job& job : {all, one}) EXPECT_EQ(error_in(job), "no error");
  model.compute_only_in(Dtype::fp32);
  EXPECT_EQ(error_in(all),
            "job.toml:12:15: precision.param_dtype = \"bf16\", and this program computes in fp32 alone (use "
            "\"fp32\")");
  EXPECT_EQ(error_in(one), "job.toml:22:1: param_dtype = \"bf16\" of unit \"" + model.name({1}) +
                               "\", and this program computes in fp32 alone (use \"fp32\")");
  entry.match = "*";
  entry.param_dtype = {Dtype::fp32, "job.toml:22:1"};
  all.strategy.units = {entry};
  EXPECT_EQ(error_in(all), "no error") << "what is asked for everywhere and taken back everywhere";
}

TEST(Launch, AStrategyThatCannotServeTheJobIsNamedWhereTheJobNamesIt) {
  Job job = toy::job(1, "byte_budget");
  job.places["strategy.plugin"] = {"job.toml:3:10", false};
  EXPECT_EQ(error_of(job, [&](Rank& rank) { Runtime(job, toy::two_units(), rank); }),
            "job.toml:3:10: strategy byte_budget cannot serve this job: memory.budget is not set, and it keeps units "
            "as far as "
            "that budget goes; set it, as in [memory] budget = \"2 GiB\"");
}

}  // namespace
}  // namespace reshard
