// Several micro-batches in flight, as pipeline schedules have them: two stages of units in one process, in orders
// written by hand.

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/engine/ways.h"

namespace reshard {
namespace {

constexpr int kMicroBatches = 4, kStages = 2, kUnitsOfStage = 2;

// "F01" is the forward pass of micro-batch 0 through stage 1; B backward.
using Order = std::vector<std::string>;

const Order kInTurn{"F00", "F01", "B01", "B00", "F10", "F11", "B11", "B10",
                    "F20", "F21", "B21", "B20", "F30", "F31", "B31", "B30"};
const Order kOneForwardOneBackward{"F00", "F10", "F01", "B01", "B00", "F20", "F11", "B11",
                                   "B10", "F30", "F21", "B21", "B20", "F31", "B31", "B30"};
const Order kAllForwardFirst{"F00", "F10", "F20", "F30", "F01", "F11", "F21", "F31",
                             "B01", "B11", "B21", "B31", "B00", "B10", "B20", "B30"};
const Order kInterleaved{"F00", "F10", "F01", "F11", "B01", "F20", "B00", "F30",
                         "B11", "F21", "B10", "F31", "B21", "B20", "B31", "B30"};
const Order* const kOrders[] = {&kInTurn, &kOneForwardOneBackward, &kAllForwardFirst, &kInterleaved};

Model stages() {
  Model model({.name = "root"});
  for (int u = 0; u < kStages * kUnitsOfStage; ++u)
    model.add({.name = "h." + std::to_string(u), .parameters = {{"w" + std::to_string(u), {100 + u}}}});
  return model;
}

StepResult step(Runtime& runtime, int64_t number, const Order& order) {
  return runtime.step_in_flight([&] {
    for (const std::string& pass : order) {
      const int m = pass[1] - '0', first = (pass[2] - '0') * kUnitsOfStage + 1;
      runtime.enter_micro_batch(m);
      for (int i = 0; i < kUnitsOfStage; ++i) {
        if (pass[0] == 'F') {
          runtime.forward({first + i}, [](const View& view) { EXPECT_FALSE(toy::seen(view, 0).empty()); });
        } else {
          const int unit = first + kUnitsOfStage - 1 - i;
          runtime.backward({unit}, [&](const View& view) {
            toy::add_contribution(view, 0, [&](float value, int64_t e) {
              return toy::contribution(value, number, runtime.rank().index(), m, 0, e);
            });
          });
        }
      }
    }
    return 0.25 * (runtime.rank().index() + 1);
  });
}

Job job_of(const toy::Way& way, bool free_between = false) {
  Job job = toy::job(way, kMicroBatches);
  UnitOverride plain;
  plain.match = "*";
  plain.prefetch_forward = Given<int>{0, "test", {}};
  plain.prefetch_backward = Given<int>{0, "test", {}};
  if (free_between) plain.after_backward = Given<AfterBackward>{AfterBackward::free, "test", {}};
  job.strategy.units.push_back(plain);
  return job;
}

TEST(Flights, EveryOrderLeavesTheBitsOfMicroBatchesOneByOne) {
  toy::for_each_way({1, 2, 4}, [](const toy::Way& way) {
    for (const char* dtype : {"fp32", "bf16"}) {
      Job job = job_of(way);
      job.precision.param_dtype = dtype;
      const auto train = [&](const Order& order) {
        return toy::values_after(job, stages(), [&](Runtime& runtime) {
          const auto at_rest = toy::live(runtime);
          for (int s = 0; s < 2; ++s) step(runtime, s, order);
          EXPECT_EQ(toy::live(runtime), at_rest) << way.text();
        });
      };
      // Backward passes end in the same order in all of them; and one by one without flights.
      const toy::Values expected = toy::values_after(job, stages(), [&](Runtime& runtime) {
        for (int s = 0; s < 2; ++s) toy::step(runtime, s);
      });
      for (const Order* order : kOrders) EXPECT_EQ(train(*order), expected) << way.text() << ", " << dtype;
    }
  });
}

// How often the stage is entered while nobody needs it: what keeping it over the flights costs in gathers.
int64_t times_needed_anew(const Order& order, char stage) {
  int64_t times = 0;
  int waiting = 0;
  for (const std::string& pass : order) {
    if (pass[2] != stage) continue;
    if (pass[0] == 'F' && waiting++ == 0) ++times;
    if (pass[0] == 'B') --waiting;
  }
  return times;
}

TEST(Flights, AUnitIsFreedOnlyWhenNoMicroBatchNeedsIt) {
  for (const bool overlap : {false, true})
    for (const Order* order : kOrders) {
      const auto gathers = [&](const char* strategy, bool free_between) {
        int64_t count = 0;
        toy::run(job_of({strategy, 2, overlap}, free_between), stages(), [&](Runtime& runtime) {
          step(runtime, 0, *order);
          if (runtime.rank().first()) count = runtime.report().traffic.gather.count;
        });
        return count;
      };
      const int64_t units = kStages * kUnitsOfStage;
      EXPECT_EQ(gathers("zero3", false), 2 * kMicroBatches * units);
      EXPECT_EQ(gathers("zero2", false), units);
      EXPECT_EQ(gathers("zero2", true),
                kUnitsOfStage * (times_needed_anew(*order, '0') + times_needed_anew(*order, '1')));
    }
}

TEST(Flights, SeveralMicroBatchesEqualOneBatchToRounding) {
  toy::for_each_way({1, 2, 3}, [](const toy::Way& way) {
    const auto gradients = [&](int microbatches) {
      Job job = toy::job(way, microbatches);
      return toy::gradients_after(job, stages(), [&](Runtime& runtime) {
        runtime.step([&](MicroBatch at) {
          const toy::Terms terms{.term = [&](int, int64_t i) {
            double sum = 0;
            for (int m = 0; m < kMicroBatches; ++m)
              if (microbatches == 1 || m == at.index)
                sum += static_cast<double>(toy::contribution(1.0F, 0, runtime.rank().index(), m, 0, i));
            return static_cast<float>(microbatches == 1 ? sum / kMicroBatches : sum);
          }};
          toy::forward(runtime, terms);
          toy::backward(runtime, terms);
          return 0.0;
        });
      });
    };
    const toy::Values one = gradients(1);
    for (const auto& [name, values] : gradients(kMicroBatches))
      for (std::size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(values[i], one.at(name)[i], 1e-6) << way.text();
  });
}

// A micro-batch's forward result is used in no loss, another one never runs: what both held is given back.
TEST(Flights, AMicroBatchWhoseBackwardNeverComesHoldsNothingBack) {
  toy::for_each_way({1, 2}, [](const toy::Way& way) {
    const Order order{"F00", "F01", "F10", "F20", "F21", "B21", "B20", "F30", "F31", "B31", "B30"};
    toy::run(job_of(way), stages(), [&](Runtime& runtime) {
      const auto at_rest = toy::live(runtime);
      for (int s = 0; s < 2; ++s) {
        EXPECT_GT(step(runtime, s, order).gradient_norm, 0.0);
        EXPECT_EQ(toy::live(runtime), at_rest) << way.text();
      }
    });
  });
}

}  // namespace
}  // namespace reshard
