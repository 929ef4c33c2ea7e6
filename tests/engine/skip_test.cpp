// A loss or a gradient that is not finite on one rank: all ranks skip the step together, and it is as if it had not
// been.

#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tests/engine/ways.h"

namespace reshard {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The loss of that rank, or an element of its gradient, is `value`.
struct Fault {
  bool in_gradient = false;
  float value = 0;
  int rank = 0;
};

StepResult bad_step(Runtime& runtime, int64_t number, const Fault& fault) {
  const bool mine = runtime.rank().index() == fault.rank;
  return runtime.step([&](MicroBatch at) {
    const bool last = at.index + 1 == at.count;
    toy::Pass pass(runtime, {number, at.index, at.count});
    if (!fault.in_gradient) return pass() + (mine && last ? fault.value : 0.0F);
    pass.forward(0);
    runtime.backward(kRoot, [&](const View& view) {
      if (mine && last) view.gradient(0)[99] += fault.value;
    });
    return 0.5;
  });
}

const Fault kFaults[] = {
    {false, -std::nanf(""), 0}, {false, -kInfinity, -1}, {true, std::nanf(""), -1}, {true, kInfinity, 0}};

Job skipping(const toy::Way& way, int64_t most) {
  Job job = toy::job(way, 2);
  job.train.stop_after_skipped = most;
  return job;
}

TEST(Skip, AllRanksSkipTogetherAndTrainingGoesOnAsIfTheStepHadNotBeen) {
  toy::for_each_way({1, 2, 3, 4}, [](const toy::Way& way) {
    const auto train = [&](bool bad) {
      return toy::values_after(skipping(way, 0), toy::tree(), [&](Runtime& runtime) {
        toy::step(runtime, 0);
        const auto at_rest = toy::live(runtime);
        const toy::Values before = toy::read_all(runtime);
        for (Fault fault : kFaults) {
          if (!bad) continue;
          if (fault.rank < 0) fault.rank = way.ranks - 1;
          const StepResult result = bad_step(runtime, 50, fault);
          EXPECT_TRUE(result.skipped) << way.text();
          EXPECT_EQ(std::isfinite(result.loss), fault.in_gradient) << way.text();
          EXPECT_EQ(std::isfinite(result.gradient_norm), !fault.in_gradient) << way.text();
          EXPECT_FALSE(std::isnan(result.loss) && std::signbit(result.loss)) << "a NaN has no sign";
          EXPECT_EQ(toy::read_all(runtime), before) << way.text();
          EXPECT_EQ(toy::live(runtime), at_rest) << way.text();
        }
        EXPECT_FALSE(toy::step(runtime, 1).skipped);
        EXPECT_EQ(runtime.report().steps_skipped, bad ? 4 : 0);
        EXPECT_EQ(runtime.report().steps, bad ? 6 : 2);
      });
    };
    EXPECT_EQ(train(true), train(false)) << way.text();
  });
}

// A good step that ends in a carry, not in an update.
void carried_step(Runtime& runtime) {
  runtime.begin_step();
  for (int m = 0; m < runtime.job().train.microbatches; ++m) {
    runtime.begin_micro_batch();
    toy::Pass(runtime, {runtime.steps_done(), m, runtime.job().train.microbatches})();
  }
  runtime.carry();
  EXPECT_FALSE(runtime.end_step(0.5).skipped);
}

// Runs a step per letter: g good, c good and carried, l a loss and n a gradient that is no number on the last rank. The
// error on each rank.
std::string error_after(const Job& job, const std::string& steps, std::size_t* done = nullptr) {
  std::vector<std::string> errors(static_cast<std::size_t>(job.mesh.ranks), "no error");
  std::vector<std::size_t> counts(errors.size());
  toy::run(job, toy::tree(), [&](Runtime& runtime) {
    const auto rank = static_cast<std::size_t>(runtime.rank().index());
    errors[rank] = toy::error_of([&] {
      for (const char step : steps) {
        if (step == 'c')
          carried_step(runtime);
        else if (step == 'g')
          EXPECT_FALSE(toy::step(runtime, runtime.steps_done()).skipped);
        else
          EXPECT_TRUE(bad_step(runtime, 50, {step == 'n', std::nanf(""), job.mesh.ranks - 1}).skipped);
        ++counts[rank];
      }
    });
  });
  for (const std::string& error : errors) EXPECT_EQ(error, errors[0]);
  for (const std::size_t count : counts) EXPECT_EQ(count, counts[0]);
  if (done != nullptr) *done = counts[0];
  return errors[0];
}

TEST(Skip, SoManyInARowEndTheRunOnAllRanksAndAGoodStepBeginsTheCountAnew) {
  const std::string remedy = " (lower [optimizer] lr, set clip_norm, or look at the data of that step)";
  toy::for_each_way({1, 3}, [&](const toy::Way& way) {
    const std::string last = std::to_string(way.ranks - 1);
    std::size_t done = 0;
    EXPECT_EQ(error_after(skipping(way, 1), "gn", &done), "the gradient norm is nan at step 1" + remedy);
    EXPECT_EQ(done, 1U);
    EXPECT_EQ(error_after(skipping(way, 2), "lgngll", &done),
              "the loss is nan on rank " + last + " at step 5, the step before it was skipped" + remedy);
    EXPECT_EQ(done, 5U);
    EXPECT_EQ(error_after(skipping(way, 3), "lngnln", &done),
              "the gradient norm is nan at step 5, the 2 steps before it were skipped" + remedy);
    EXPECT_EQ(done, 5U);
    EXPECT_EQ(error_after(skipping(way, 0), "nnnnnlllllg"), "no error");
    EXPECT_EQ(error_after(skipping(way, 2), "lclcng"), "no error");
  });
}

// With stop_after_skipped = 2, one step that is not finite ends nothing, whatever the program skips around it.
TEST(Skip, TheProgramsOwnAreNotCountedAmongThoseThatEndTheRun) {
  toy::for_each_way({1, 2}, [](const toy::Way& way) {
    toy::run(skipping(way, 2), toy::tree(), [&](Runtime& runtime) {
      const std::string error = toy::error_of([&] {
        for (const char end : std::string("sussus")) {
          runtime.begin_step();
          for (int m = 0; m < 2; ++m) {
            runtime.begin_micro_batch();
            toy::Pass(runtime, {50, m, 2})();
          }
          if (end == 's')
            runtime.skip();
          else
            runtime.update(runtime.steps_done() == 1 ? kInfinity : runtime.gradient_norm());
          runtime.end_step(0.5);
        }
      });
      EXPECT_EQ(error, "no error") << way.text();
      EXPECT_EQ(runtime.report().steps_skipped, 1) << way.text();
    });
  });
}

TEST(Skip, AProgramOfStagesSkipsAndSaysSo) {
  toy::for_each_way({1, 2}, [](const toy::Way& way) {
    // 'u' an update by the norm, 's' the program's own skip.
    const auto train = [&](const std::string& how) {
      return toy::values_after(skipping(way, 0), toy::tree(), [&](Runtime& runtime) {
        toy::step(runtime, 0);
        for (const char end : how) {
          runtime.begin_step();
          for (int m = 0; m < 2; ++m) {
            runtime.begin_micro_batch();
            toy::Pass(runtime, {50, m, 2}).forward(0);
            runtime.backward(kRoot, [&](const View& view) {
              if (end == 'u' && runtime.rank().first()) view.gradient(1)[0] += kInfinity;
            });
          }
          if (end == 'u') {
            runtime.update(runtime.gradient_norm());
          } else {
            runtime.skip();
          }
          const StepResult result = runtime.end_step(0.5);
          EXPECT_EQ(result.skipped, end == 'u') << way.text();
          EXPECT_EQ(result.skipped_by_program, end == 's') << way.text();
        }
        EXPECT_EQ(runtime.report().steps_skipped, std::count(how.begin(), how.end(), 'u'));
        EXPECT_EQ(runtime.report().steps_skipped_by_program, std::count(how.begin(), how.end(), 's'));
        toy::step(runtime, 1);
      });
    };
    EXPECT_EQ(train("us"), train("")) << way.text();
  });
}

// By stages, with this rank's loss given to what ends the step; `carry` in place of update.
StepResult staged_step(Runtime& runtime, int64_t number, double loss, bool carry = false) {
  const int count = runtime.job().train.microbatches;
  runtime.begin_step();
  for (int m = 0; m < count; ++m) {
    runtime.begin_micro_batch();
    toy::Pass(runtime, {number, m, count})();
  }
  if (carry)
    runtime.carry(loss);
  else
    runtime.update(runtime.gradient_norm(), loss);
  return runtime.end_step();
}

TEST(Skip, InStagesALossThatTheUpdateIsGivenMakesAllRanksSkipTogether) {
  toy::for_each_way({1, 2, 3, 4}, [](const toy::Way& way) {
    const auto train = [&](bool bad) {
      return toy::values_after(skipping(way, 0), toy::tree(), [&](Runtime& runtime) {
        const int last = way.ranks - 1, rank = runtime.rank().index();
        EXPECT_EQ(staged_step(runtime, 0, 4.0).loss, 4.0 / 2) << way.text() << ": each rank's, of two micro-batches";
        const auto at_rest = toy::live(runtime);
        for (const bool carry : {false, true})
          for (const double loss : {std::nan(""), static_cast<double>(kInfinity)}) {
            if (!bad) continue;
            const StepResult result = staged_step(runtime, 50, rank == last ? loss : 0.0, carry);
            EXPECT_TRUE(result.skipped) << way.text();
            EXPECT_FALSE(std::isfinite(result.loss)) << way.text();
            EXPECT_TRUE(std::isfinite(result.gradient_norm)) << way.text();
            EXPECT_EQ(toy::live(runtime), at_rest) << way.text() << ": nothing is carried";
          }
        if (rank == last) runtime.request_stop();
        EXPECT_TRUE(staged_step(runtime, 1, 0.0).stop_requested) << way.text();
        EXPECT_EQ(runtime.report().steps_skipped, bad ? 4 : 0);
      });
    };
    EXPECT_EQ(train(true), train(false)) << way.text();
  });
}

TEST(Skip, InStagesTheFirstBadLossEndsTheRunBeforeTheUpdate) {
  toy::for_each_way({1, 3}, [](const toy::Way& way) {
    toy::run(skipping(way, 1), toy::tree(), [&](Runtime& runtime) {
      const toy::Values before = toy::read_all(runtime);
      for (const bool carry : {false, true}) {
        const std::string text = toy::error_of([&] {
          try {
            staged_step(runtime, 0, runtime.rank().index() + 1 == way.ranks ? std::nan("") : 1.0, carry);
          } catch (...) {
            runtime.abandon();
            throw;
          }
        });
        EXPECT_EQ(text,
                  fmt::format("the loss is nan on rank {} at step 0 (lower [optimizer] lr, set clip_norm, or look "
                              "at the data of that step)",
                              way.ranks - 1));
      }
      EXPECT_EQ(runtime.steps_done(), 0) << way.text();
      EXPECT_EQ(toy::read_all(runtime), before) << way.text();
    });
  });
}

TEST(Skip, ALossIsGivenToTheUpdateOnAllRanksOrOnNoneAndElseToTheStepsEnd) {
  const toy::Way way{"zero3", 3, false};
  std::vector<std::string> errors(3);
  toy::run(skipping(way, 0), toy::tree(), [&](Runtime& runtime) {
    const auto end = [&](const auto& ending) {
      return toy::error_of([&] {
        try {
          runtime.begin_step();
          for (int m = 0; m < 2; ++m) {
            runtime.begin_micro_batch();
            toy::Pass(runtime, {0, m, 2})();
          }
          ending(runtime.gradient_norm());
        } catch (...) {
          runtime.abandon();
          throw;
        }
      });
    };
    errors[static_cast<std::size_t>(runtime.rank().index())] =
        end([&](double norm) { runtime.rank().index() == 1 ? runtime.update(norm) : runtime.update(norm, 1.0); });
    EXPECT_EQ(end([&](double norm) {
                runtime.update(norm);
                runtime.end_step();
              }),
              "step 0 ends without its loss (give the sum of this rank's losses to update() or to end_step())");
    EXPECT_EQ(runtime.steps_done(), 1) << "it was updated";
    EXPECT_EQ(end([&](double norm) {
                runtime.update(norm, 3.0);
                EXPECT_EQ(runtime.end_step(7.0).loss, 3.0 / 2) << "the word that the update was given stands";
              }),
              "no error");
  });
  for (const std::string& error : errors)
    EXPECT_EQ(error, "rank 0 gives update its loss in step 0, rank 1 does not (give it on every rank or on none)");
}

// The update has been by then: the loss is what it is, and the first that is not finite ends the run.
TEST(Skip, InStagesALossThatIsNotFiniteComesTooLateToSkip) {
  for (const int64_t most : {0, 1, 2}) {
    const toy::Way way{"zero3", 2, false};
    toy::run(skipping(way, most), toy::tree(), [&](Runtime& runtime) {
      for (int s = 0; s < 3; ++s) {
        const std::string text = toy::error_of([&] {
          runtime.begin_step();
          for (int m = 0; m < 2; ++m) {
            runtime.begin_micro_batch();
            toy::Pass(runtime, {s, m, 2})();
          }
          runtime.update(runtime.gradient_norm());
          const StepResult result = runtime.end_step(runtime.rank().first() ? 0.0 : std::nan(""));
          EXPECT_FALSE(result.skipped);
          EXPECT_TRUE(std::isnan(result.loss));
        });
        if (most == 1) {
          EXPECT_EQ(text,
                    fmt::format("the loss is nan on rank 1 at step {} (lower [optimizer] lr, set clip_norm, or look "
                                "at the data of that step)",
                                s));
          break;
        }
        EXPECT_EQ(text, "no error");
      }
      EXPECT_EQ(runtime.report().steps_skipped, 0);
    });
  }
}

}  // namespace
}  // namespace reshard
