// What ranks must do alike, and what happens where one does not: ending a step, coming to a hook at all, keeping what
// outlives its call.

#include <chrono>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "tests/engine/ways.h"

namespace reshard {
namespace {

// One micro-batch by stages, up to the point where parameters would change.
double up_to_the_end(Runtime& runtime) {
  runtime.begin_step();
  runtime.begin_micro_batch();
  toy::Pass(runtime, {runtime.steps_done(), 0, 1})();
  runtime.reduce();
  return runtime.gradient_norm();
}

TEST(Agreement, AStepIsEndedByAllRanksInTheSameWay) {
  const auto errors = [](const toy::Way& way, const auto& other_end) {
    std::vector<std::string> all(static_cast<std::size_t>(way.ranks));
    toy::run(toy::job(way), toy::tree(), [&](Runtime& runtime) {
      const toy::Values before = toy::read_all(runtime);
      all[static_cast<std::size_t>(runtime.rank().index())] = toy::error_of([&] {
        try {
          const double norm = up_to_the_end(runtime);
          runtime.rank().index() == 1 ? other_end(runtime, norm) : runtime.update(norm);
        } catch (...) {
          runtime.abandon();
          throw;
        }
      });
      EXPECT_EQ(toy::read_all(runtime), before) << way.text() << ": nothing is updated";
      EXPECT_FALSE(toy::step(runtime, 0).skipped) << way.text() << ": training goes on";
    });
    return all;
  };
  toy::for_each_way({2, 3}, [&](const toy::Way& way) {
    for (const std::string& text : errors(way, [](Runtime& runtime, double) { runtime.skip(); }))
      EXPECT_EQ(text, "rank 1 ends step 0 by skip, rank 0 by update (every rank must update, skip or carry as the others do)")
          << way.text();
    for (const std::string& text : errors(way, [](Runtime& runtime, double) { runtime.carry(); }))
      EXPECT_EQ(text.substr(0, 45), "rank 1 ends step 0 by carry, rank 0 by update") << way.text();
    for (const std::string& text : errors(way, [](Runtime& runtime, double) { runtime.update(std::nan("")); }))
      EXPECT_EQ(text.substr(0, 60), "rank 1 updates by the gradient norm nan in step 0, rank 0 by") << way.text();
  });
}

// Clipping by it would turn the gradient around.
TEST(Agreement, ANormBelowZeroIsAnErrorOnAllRanksAndNothingIsUpdated) {
  toy::for_each_way({1, 3}, [](const toy::Way& way) {
    toy::run(toy::job(way), toy::tree(), [&](Runtime& runtime) {
      const toy::Values before = toy::read_all(runtime);
      up_to_the_end(runtime);
      EXPECT_EQ(
          toy::error_of([&] { runtime.update(-1.0); }),
          "the gradient norm of -1 in step 0 is below 0 (give update() what gradient_norm() returned; [optimizer] "
          "clip_norm = 0 clips nothing)")
          << way.text();
      runtime.abandon();
      EXPECT_EQ(toy::read_all(runtime), before) << way.text();
      EXPECT_FALSE(toy::step(runtime, 0).skipped) << way.text();
    });
  });
}

TEST(Agreement, AGradientThatIsNotFiniteIsNotCarriedOn) {
  toy::for_each_way({1, 2}, [](const toy::Way& way) {
    Job job = toy::job(way);
    job.train.stop_after_skipped = 0;
    toy::run(job, toy::tree(), [&](Runtime& runtime) {
      const auto at_rest = toy::live(runtime);
      runtime.begin_step();
      runtime.begin_micro_batch();
      toy::Pass pass(runtime, {0, 0, 1});
      pass.forward(0);
      runtime.backward(kRoot, [&](const View& view) { view.gradient(0)[0] += std::nanf(""); });
      runtime.carry();
      EXPECT_TRUE(runtime.end_step(0.0).skipped) << way.text();
      EXPECT_EQ(toy::live(runtime), at_rest) << way.text() << ": nothing is carried";
      EXPECT_FALSE(toy::step(runtime, 1).skipped) << way.text();
    });
  });
}

// Between the update and end_step() a failure loses the step's result, not the step: whoever goes on goes on after it.
TEST(Agreement, AFailureAfterTheUpdateOrTheCarryLeavesTheStepDone) {
  const auto failing = [](Runtime& runtime) { EXPECT_ANY_THROW({
    try {
      if (runtime.rank().index() == runtime.rank().count() - 1) throw std::runtime_error("the log is full");
      runtime.end_step(0.0);
    } catch (...) {
      runtime.abandon();
      throw;
    }
  }); };
  toy::for_each_way({2, 3}, [&](const toy::Way& way) {
    for (const bool carried : {false, true}) {
      const auto train = [&](bool fails) {
        return toy::values_after(toy::job(way), toy::tree(), [&](Runtime& runtime) {
          const double norm = up_to_the_end(runtime);
          carried ? runtime.carry() : runtime.update(norm);
          if (fails)
            failing(runtime);
          else
            runtime.end_step(0.0);
          EXPECT_EQ(runtime.steps_done(), 1) << way.text();
          EXPECT_EQ(toy::step(runtime, 1).step, 1) << way.text();
        });
      };
      EXPECT_EQ(train(true), train(false)) << way.text() << (carried ? ", carried" : "");
    }
  });
}

// The last rank gives up outside of a step, once or more before it begins anything: the others' step fails once, and
// all go on with the step of the same number.
TEST(Agreement, AbandoningOutsideOfAStepIsToldOnceUntilAllHaveMetAgain) {
  toy::for_each_way({2, 3}, [](const toy::Way& way) {
    const auto train = [&](int times, bool in_step) {
      return toy::values_after(toy::job(way), toy::tree(), [&](Runtime& runtime) {
        const bool last = runtime.rank().index() + 1 == way.ranks;
        int left = times, failures = 0;
        while (runtime.steps_done() < 3) {
          const bool fails = last && runtime.steps_done() == 1 && left > 0;
          const bool inside = fails && in_step && left == times;  // the first of them
          if (fails) --left;
          try {
            if (fails && !inside) throw std::runtime_error("no data");
            toy::step(runtime, runtime.steps_done(), [&] {
              if (inside) throw std::runtime_error("no luck");
            });
          } catch (const std::exception&) {
            ++failures;
            runtime.abandon();
          }
        }
        EXPECT_EQ(failures, last ? times : std::min(times, 1)) << way.text();
      });
    };
    const toy::Values expected = train(0, false);
    for (const int times : {1, 3})
      for (const bool in_step : {false, true})
        EXPECT_EQ(train(times, in_step), expected) << way.text() << ", " << times;
  });
}

TEST(Agreement, ReadingInsideOfAStepIsAnErrorThatLeavesTheStepAsItIs) {
  toy::for_each_way({1, 2}, [](const toy::Way& way) {
    const Model model = toy::tree();
    const std::string name = model.spec(kRoot).parameters[0].name;
    const auto train = [&](bool reading) {
      return toy::values_after(toy::job(way), model, [&](Runtime& runtime) {
        runtime.step([&](MicroBatch at) {
          if (reading) {
            EXPECT_EQ(toy::error_of([&] { runtime.read(name); }),
                      "unit \"" + model.name(kRoot) + "\": the hook \"before read\" came at a wrong time: a step or a "
                      "forward-only pass is running");
          }
          return toy::Pass(runtime, at)();
        });
      });
    };
    EXPECT_EQ(train(true), train(false)) << way.text();
  });
}

TEST(Agreement, ValuesOfWholeThatOutliveItsCallSaySo) {
  toy::for_each_way({1, 2}, [](const toy::Way& way) {
    toy::run(toy::job(way), toy::tree(), [&](Runtime& runtime) {
      std::optional<Values> kept;
      runtime.whole(kRoot, [&](const Values& values) { kept = values; });
      const std::string name = runtime.model().spec(kRoot).parameters[0].name;
      EXPECT_EQ(toy::error_of([&] { kept->parameter(0)[0] = 1; }),
                "parameter \"" + name + "\" of unit \"" + runtime.model().name(kRoot) +
                    "\" is used after Runtime::whole has returned (use it inside the call only)");
    });
  });
}

// A thread that never comes back cannot be ended: the process is, with the first rank's news.
TEST(AgreementDeathTest, ARankThatIsStuckEndsTheProcessWithTheNewsOfTheOthers) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  Job job = toy::job(2, "zero3");
  job.mesh.timeout = 0.3;
  EXPECT_EXIT(toy::run(job, toy::tree(),
                       [](Runtime& runtime) {
                         toy::step(runtime, 0);
                         while (runtime.rank().index() == 1) std::this_thread::sleep_for(std::chrono::seconds(1));
                         toy::step(runtime, 1);
                       }),
              testing::ExitedWithCode(1),
              "rank 1 did not come to .*, collective [0-9]+, within 0.3 s.*\n.*1 of 2 ranks have not come to a hook for "
              "another 0.3 s: the process is ended");
}

}  // namespace
}  // namespace reshard
