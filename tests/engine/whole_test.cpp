// Runtime::whole: a unit's fp32 values outside of hooks, to look at and to change.

#include <functional>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/engine/ways.h"

namespace reshard {
namespace {

float written(int parameter, int64_t i) {
  return 0.37F * static_cast<float>(parameter + 1) + 0.0137F * static_cast<float>(i % 57);
}

void write(Runtime& runtime, int unit) {
  runtime.whole({unit}, [&](const Values& values) {
    for (int p = 0; p < static_cast<int>(runtime.model().spec({unit}).parameters.size()); ++p)
      for (std::size_t i = 0; i < values.parameter(p).size(); ++i)
        values.parameter(p)[i] = written(p, static_cast<int64_t>(i));
  });
}

// Every parameter of the unit is what write() left.
void expect_written(const View& view, const UnitSpec& spec, const std::string& where) {
  for (std::size_t p = 0; p < spec.parameters.size(); ++p) {
    const std::vector<float> values = toy::seen(view, static_cast<int>(p));
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(values[i], toy::rounded(view.dtype(), written(static_cast<int>(p), static_cast<int64_t>(i)))) << where;
  }
}

TEST(Whole, ShowsWhatReadReadsAndLeavesNothingBehind) {
  toy::for_each_way({1, 2, 3, 4}, [](const toy::Way& way) {
    toy::run(toy::job(way), toy::tree(true), [&](Runtime& runtime) {
      toy::step(runtime, 0);
      const auto at_rest = toy::live(runtime);
      for (int u = 0; u < runtime.model().unit_count(); ++u) {
        const auto& parameters = runtime.model().spec({u}).parameters;
        std::vector<std::vector<float>> seen;
        runtime.whole({u}, [&](const Values& values) {
          EXPECT_GT(toy::live(runtime, MemoryCategory::whole_parameters), 0) << way.text();
          for (std::size_t p = 0; p < parameters.size(); ++p) {
            const std::span<float> all = values.parameter(static_cast<int>(p));
            seen.emplace_back(all.begin(), all.end());
          }
        });
        EXPECT_EQ(toy::live(runtime), at_rest) << way.text();
        for (std::size_t p = 0; p < parameters.size(); ++p) {
          EXPECT_NE(seen[p][0], toy::initial(parameters[p].name, 0)) << "it has been trained";
          EXPECT_EQ(seen[p], runtime.read(parameters[p].name)) << way.text();
        }
      }
    });
  });
}

TEST(Whole, WhatEveryRankWroteIsSeenByReadsPassesAndTheNextStep) {
  toy::for_each_way({1, 2, 3, 4}, [](const toy::Way& way) {
    for (const char* dtype : {"fp32", "bf16"}) {
      Job job = toy::job(way);
      job.precision.param_dtype = dtype;
      if (way.ranks == 4 && way.strategy == "zero3") {  // partial copies stay after a forward-only pass
        UnitOverride shrunk;
        shrunk.match = "*";
        shrunk.after_forward = Given<AfterForward>{AfterForward::shrink(2), "test", {}};
        job.strategy.units.push_back(shrunk);
      }
      const Model model = toy::tree();
      toy::run(job, model, [&](Runtime& runtime) {
        toy::step(runtime, 0);
        runtime.evaluate([&] { toy::Pass(runtime, {}).forward(0); });  // leaves copies where the strategy keeps
        for (int u = 0; u < model.unit_count(); ++u) write(runtime, u);
        for (int p = 0; p < 2; ++p) {
          const std::vector<float> values = runtime.read(p == 0 ? "w0" : "b0");
          for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], written(p, static_cast<int64_t>(i)));
        }
        const auto look = [&](int unit) {
          return [&, unit](const View& view) { expect_written(view, model.spec({unit}), way.text() + " in " + dtype); };
        };
        const auto pass = [&](const View& view) {
          look(0)(view);
          for (int u = 1; u < model.unit_count(); ++u) runtime.forward({u}, look(u));
        };
        runtime.evaluate([&] { runtime.forward(kRoot, pass); });
        runtime.step([&](MicroBatch) {
          runtime.forward(kRoot, pass);
          runtime.backward(kRoot, [&](const View& view) {
            for (int u = model.unit_count() - 1; u > 0; --u) runtime.backward({u}, look(u));
            look(0)(view);
          });
          return 0.0;
        });
      });
    }
  });
}

TEST(Whole, WritingIsAFillThatLeavesTheOptimizerAlone) {
  toy::for_each_way({1, 3}, [](const toy::Way& way) {
    const auto train = [&](bool by_whole) {
      return toy::values_after(toy::job(way), toy::tree(true), [&](Runtime& runtime) {
        toy::step(runtime, 0);
        if (by_whole)
          for (int u = 0; u < runtime.model().unit_count(); ++u) write(runtime, u);
        else
          runtime.fill([&](std::string_view name, int64_t offset, std::span<float> values) {
            const int parameter = runtime.model().find_parameter(name).index;
            for (std::size_t i = 0; i < values.size(); ++i)
              values[i] = written(parameter, offset + static_cast<int64_t>(i));
          });
        toy::step(runtime, 1);
      });
    };
    EXPECT_EQ(train(true), train(false)) << way.text();
  });
}

TEST(Whole, DifferentValuesOnRanksAreAnErrorOnAllAndChangeNothing) {
  toy::for_each_way({2, 3, 4}, [](const toy::Way& way) {
    const auto train = [&](bool differ) {
      return toy::values_after(toy::job(way), toy::tree(true), [&](Runtime& runtime) {
        toy::step(runtime, 0);
        for (const int odd : {0, way.ranks - 1}) {
          if (!differ) continue;
          const std::string text = toy::error_of([&] {
            runtime.whole({2}, [&](const Values& values) {
              if (runtime.rank().index() == odd) values.parameter(0)[126] += 1;
            });
          });
          EXPECT_EQ(text, fmt::format("rank {} left other values in unit \"h.0.x\" than rank 0 (write the same values "
                                      "on every rank; nothing has been changed)",
                                      odd == 0 ? 1 : odd))
              << way.text();
        }
        toy::step(runtime, 1);
      });
    };
    EXPECT_EQ(train(true), train(false)) << way.text();
  });
}

// Caught inside, what was asked for has not been, and the values around it are written. Abandoned inside, none are.
TEST(Whole, NothingThatAllRanksDoTogetherStandsInside) {
  using Call = std::function<void(Runtime&)>;
  const Call another = [](Runtime& runtime) { runtime.whole({1}, [](const Values& it) { it.parameter(0)[0] = 9; }); };
  const Call same = [](Runtime& runtime) { runtime.whole(kRoot, [](const Values& it) { it.parameter(0)[1] = 9; }); };
  const Call read = [](Runtime& runtime) { runtime.read("w1"); };
  const Call step = [](Runtime& runtime) { toy::step(runtime, 0); };
  const Call evaluate = [](Runtime& runtime) { runtime.evaluate([] {}); };
  const std::string refusal = "the runtime is asked for something inside of Runtime::whole";
  toy::for_each_way({1, 3}, [&](const toy::Way& way) {
    toy::run(toy::job(way), toy::tree(), [&](Runtime& runtime) {
      toy::Values values = toy::read_all(runtime);
      for (const Call& call : {another, same, read}) {
        runtime.whole(kRoot, [&](const Values& it) {
          EXPECT_EQ(toy::error_of([&] { call(runtime); }), refusal + " (call it after whole() has returned)") << way.text();
          it.parameter(0)[0] = 5;
        });
        values["a"][0] = 5;
        EXPECT_EQ(toy::read_all(runtime), values) << way.text();
      }
      for (const Call& call : {step, evaluate}) {
        const std::string outer = toy::error_of([&] {
          runtime.whole(kRoot, [&](const Values& it) {
            it.parameter(0)[0] = 7;  // the refusal, or that another rank has met it before
            EXPECT_NE(toy::error_of([&] { call(runtime); }).find(refusal), std::string::npos) << way.text();
          });
        });
        // Its own failure, or, where another rank met it first, that one's.
        EXPECT_TRUE(outer == "the runtime was abandoned inside of Runtime::whole (catch no failure inside of it)" ||
                    outer.find(refusal) != std::string::npos)
            << outer;
        EXPECT_EQ(toy::read_all(runtime), values) << way.text();
      }
    });
  });
}

}  // namespace
}  // namespace reshard
