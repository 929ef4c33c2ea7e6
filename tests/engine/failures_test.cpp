// A rank that throws: nobody waits for long, the step has not happened anywhere, and training goes on as if it had
// never begun.

#include <atomic>
#include <chrono>
#include <cmath>
#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>

#include "tests/engine/ways.h"
#include "tests/prompt.h"

namespace reshard {
namespace {

using std::chrono::steady_clock;

constexpr int kMicroBatches = 2;

// Counts the places that a program comes to, and throws at one of them.
class Places {
 public:
  explicit Places(int fail_at = -1) : fail_at_(fail_at) {}
  void operator()() {
    if (count_++ == fail_at_) throw std::runtime_error("no luck at place " + std::to_string(fail_at_));
  }
  int count() const { return count_; }

 private:
  int fail_at_, count_ = 0;
};

// Bare hooks and bare stages.
StepResult staged_step(Runtime& runtime, int64_t number, Places& places) {
  try {
    runtime.begin_step();
    places();
    double loss = 0;
    for (int m = 0; m < kMicroBatches; ++m) {
      places();
      runtime.begin_micro_batch();
      loss += toy::Pass(runtime, {number, m, kMicroBatches}, std::ref(places), true)();
    }
    runtime.reduce();
    places();
    const double norm = runtime.gradient_norm();
    places();
    runtime.update(norm);
    return runtime.end_step(loss);
  } catch (...) {
    runtime.abandon();
    throw;
  }
}

StepResult closed_step(Runtime& runtime, int64_t number, Places& places) {
  return toy::step(runtime, number, std::ref(places));
}

// The text of the failing ranks' own error, or, on the others, of the news of it.
void expect_failure(Runtime& runtime, int failing, int place, const std::function<void()>& fail) {
  const bool mine = failing == runtime.rank().count() || failing == runtime.rank().index();
  const std::string why = "no luck at place " + std::to_string(place);
  const std::string text = toy::error_of(fail);
  if (mine && (failing < runtime.rank().count() || text == why)) {
    EXPECT_EQ(text, why);
  } else if (failing < runtime.rank().count()) {
    EXPECT_NE(text.find(fmt::format("rank {} failed: {}", failing, why)), std::string::npos) << text;
  } else {
    EXPECT_NE(text.find(" failed: " + why), std::string::npos) << text;
  }
}

// `failing` = the ranks: all of them.
template <typename Step>
toy::Values train_with_failures(const toy::Way& way, const Step& step, int first_place, int stride, int& next) {
  return toy::values_after(toy::job(way, kMicroBatches), toy::tree(), [&](Runtime& runtime) {
    Places counted;
    step(runtime, 0, counted);
    const auto at_rest = toy::live(runtime);
    int64_t number = 1;
    for (int place = first_place; place < counted.count(); place += stride) {
      const int failing = place / stride % (way.ranks + 1);
      expect_failure(runtime, failing, place, [&] {
        Places places(failing == way.ranks || failing == runtime.rank().index() ? place : -1);
        step(runtime, 1000, places);
      });
      EXPECT_EQ(toy::live(runtime), at_rest) << way.text() << ", place " << place;
      Places good;
      step(runtime, number++, good);
    }
    if (runtime.rank().first()) next = static_cast<int>(number);
  });
}

TEST(Failures, AnExceptionAtAnyPlaceOnOneRankOrAllIsAsIfTheStepHadNeverBegun) {
  int nth = 0;
  toy::for_each_way({1, 2, 3, 4}, [&](const toy::Way& way) {
    constexpr int kStride = 13;
    ++nth;
    const auto check = [&](const auto& step) {
      int steps = 0;
      const toy::Values values = train_with_failures(way, step, nth % kStride, kStride, steps);
      EXPECT_GE(steps, 5);
      const toy::Values expected = toy::values_after(toy::job(way, kMicroBatches), toy::tree(), [&](Runtime& runtime) {
        for (int s = 0; s < steps; ++s) toy::step(runtime, s);
      });
      EXPECT_EQ(values, expected) << way.text();
    };
    if ((nth + nth / 4) % 2 == 0)
      check(staged_step);
    else
      check(closed_step);
  });
}

TEST(Failures, SeveralInARowLeaveNothingBehind) {
  toy::for_each_way({2, 3}, [&](const toy::Way& way) {
    const auto train = [&](bool fail) {
      return toy::values_after(toy::job(way, kMicroBatches), toy::tree(), [&](Runtime& runtime) {
        toy::step(runtime, 0);
        for (int f = 0; fail && f < 4; ++f)  // each rank in turn, then all
          expect_failure(runtime, std::min(f, way.ranks), 7 * f + 5, [&] {
            const bool mine = f >= way.ranks || f == runtime.rank().index();
            Places places(mine ? 7 * f + 5 : -1);
            closed_step(runtime, 1000 + f, places);
          });
        toy::step(runtime, 1);
      });
    };
    EXPECT_EQ(train(true), train(false)) << way.text();
  });
}

// Rank 0 computes for long, rank 1 throws while gathers that rank 0 has not come to are under way, rank 2 waits.
void throw_beside_a_computing_rank(bool overlap) {
  const toy::Way way{"zero3", 3, overlap};
  std::atomic<steady_clock::rep> thrown{0};
  toy::run(toy::job(way), toy::tree(), [&](Runtime& runtime) {
    const int rank = runtime.rank().index();
    int hooks_after_computing = 0;
    const auto root = [&](const View&) {
      if (rank == 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1200));
        runtime.before_forward({1});
        ++hooks_after_computing;
      }
      if (rank == 1) {
        if (overlap) runtime.before_forward({1});
        thrown = steady_clock::now().time_since_epoch().count();
        throw std::runtime_error("no luck");
      }
      runtime.before_forward({1});
      runtime.before_forward({2});
    };
    const std::string text = toy::error_of([&] {
      runtime.step([&](MicroBatch) {
        runtime.forward(kRoot, root);
        return 0.0;
      });
    });
    const auto learnt = steady_clock::now().time_since_epoch() - steady_clock::duration(thrown.load());
    if (rank == 1) {
      EXPECT_EQ(text, "no luck");
    } else {
      EXPECT_NE(text.find("rank 1 failed: no luck"), std::string::npos) << text;
    }
    if (rank == 0) {
      EXPECT_EQ(hooks_after_computing, 0);
    } else {
      EXPECT_LT(learnt, tests::kPrompt) << "rank " << rank << (overlap ? ", overlap" : "");
    }
  });
}

TEST(Failures, AWaitingRankLearnsWithinASecondAndAComputingOneAtItsNextHook) {
  const std::jthread beside(throw_beside_a_computing_rank, false);
  throw_beside_a_computing_rank(true);
}

TEST(Failures, InAnEvaluationChangeNothing) {
  toy::for_each_way({1, 2, 3}, [&](const toy::Way& way) {
    const auto train = [&](bool fail) {
      return toy::values_after(toy::job(way, kMicroBatches), toy::tree(), [&](Runtime& runtime) {
        toy::step(runtime, 0);
        const auto at_rest = toy::live(runtime);
        for (int place = 0; fail && place < 16; place += 3) {  // of 16
          const int failing = place % (way.ranks + 1);
          expect_failure(runtime, failing, place, [&] {
            Places places(failing == way.ranks || failing == runtime.rank().index() ? place : -1);
            runtime.evaluate([&] { toy::Pass(runtime, {}, std::ref(places)).forward(0); });
          });
          EXPECT_EQ(toy::live(runtime), at_rest) << way.text() << ", place " << place;
        }
        toy::step(runtime, 1);
      });
    };
    EXPECT_EQ(train(true), train(false)) << way.text();
  });
}

TEST(Failures, InWholeOrBeforeAReadChangeNothing) {
  toy::for_each_way({2, 3}, [&](const toy::Way& way) {
    const auto train = [&](bool fail) {
      return toy::values_after(toy::job(way), toy::tree(true), [&](Runtime& runtime) {
        toy::step(runtime, 0);
        const auto at_rest = toy::live(runtime);
        const bool mine = runtime.rank().index() == 1;
        for (int unit = 0; fail && unit < 4; ++unit) {
          expect_failure(runtime, 1, unit, [&] {
            runtime.whole({unit}, [&](const Values& values) {
              values.parameter(0)[0] = 7;
              Places places(mine ? unit : -1);
              for (int p = 0; p <= unit; ++p) places();
            });
          });
          EXPECT_EQ(toy::live(runtime), at_rest) << way.text() << ", unit " << unit;
        }
        toy::step(runtime, 1);
        if (fail)
          expect_failure(runtime, 1, 0, [&] {
            try {
              Places places(mine ? 0 : -1);
              places();
            } catch (...) {
              runtime.abandon();
              throw;
            }
            runtime.read("w0");
          });
        EXPECT_EQ(toy::live(runtime), at_rest) << way.text();
        toy::step(runtime, 2);
      });
    };
    EXPECT_EQ(train(true), train(false)) << way.text();
  });
}

// Bare hooks and no abandon(): a gather that rank 0 will not come to is under way where rank 1 ends.
TEST(Failures, ARankThatEndsWithAGatherUnderWayHoldsNobodyUp) {
  const auto begin = steady_clock::now();
  const std::string text = toy::error_of([&] {
    toy::run(toy::job({"zero3", 2, true}), toy::tree(), [&](Runtime& runtime) {
      runtime.begin_step();
      runtime.begin_micro_batch();
      runtime.before_forward(kRoot);
      if (runtime.rank().first()) runtime.rank().exchange(1.0);
      runtime.before_forward({1});
      throw std::runtime_error("no luck");
    });
  });
  EXPECT_EQ(text, "rank 1 failed: no luck");
  EXPECT_LT(steady_clock::now() - begin, tests::kPrompt);
}

TEST(Failures, AfterSeveralThatWereCaughtTheOneThatIsNotEndsTheLaunch) {
  toy::for_each_way({1, 2, 4}, [&](const toy::Way& way) {
    const auto begin = steady_clock::now();
    const std::string text = toy::error_of([&] {
      toy::run(toy::job(way), toy::tree(), [&](Runtime& runtime) {
        const bool last = runtime.rank().index() + 1 == way.ranks;
        for (int f = 0; f < 2; ++f)
          EXPECT_ANY_THROW(toy::step(runtime, f, [&] {
            if (last) throw std::runtime_error("caught");
          }));
        toy::step(runtime, 0, [&] {
          if (last) throw std::runtime_error("not caught");
        });
      });
    });
    EXPECT_EQ(text, fmt::format("rank {} failed: not caught", way.ranks - 1)) << way.text();
    EXPECT_LT(steady_clock::now() - begin, tests::kPrompt) << way.text();
  });
}

// The program goes on with the rank's own calls, or a new runtime, not with the one whose step failed.
TEST(Failures, WhatARankDoesNextWithoutTheRuntimeMeetsTheOthersFirst) {
  enum class Next : uint8_t { barrier, exchange, runtime };
  const auto fail = [](Runtime& runtime, int rank) {
    EXPECT_NE(toy::error_of([&] {
                toy::step(runtime, 0, [&] {
                  if (rank < 0 || runtime.rank().index() == rank) throw std::runtime_error("mishap");
                });
              }),
              "no error");
  };
  const auto train = [&](const toy::Way& way, int failing, Next next) {
    toy::run(toy::job(way), toy::tree(), [&](Runtime& runtime) {
      Rank& rank = runtime.rank();
      for (int round = 0; round < 2; ++round) {
        fail(runtime, failing);
        if (next == Next::barrier) rank.barrier();
        if (next == Next::exchange) {
          EXPECT_EQ(rank.exchange(3.0), std::vector<double>(static_cast<std::size_t>(way.ranks), 3.0));
        }
        if (next == Next::runtime) {
          Runtime fresh(runtime.job(), toy::tree(), rank);
          toy::fill(fresh);
          EXPECT_FALSE(toy::step(fresh, 1).skipped);
        }
        EXPECT_FALSE(toy::step(runtime, 1).skipped) << way.text();
      }
    });
  };
  for (const int ranks : {1, 3})
    for (const int failing : {-1, 0, ranks - 1})
      for (const Next next : {Next::barrier, Next::exchange, Next::runtime})
        for (const bool overlap : {false, true}) train({"zero3", ranks, overlap}, failing, next);
}

}  // namespace
}  // namespace reshard
