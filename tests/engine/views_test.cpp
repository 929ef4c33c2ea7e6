// Views that are used at the wrong time or in the wrong way say which parameter of which unit it was.

#include <functional>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include "tests/engine/ways.h"

namespace reshard {
namespace {

Model units_of_all_kinds() {
  Model model({.name = "root", .parameters = {{"a", {100}}}});
  model.add({.name = "embedding", .parameters = {{"table", {50}}}, .needs_parameters_in_backward = false});
  model.add({.name = "adapter", .parameters = {{"base", {70}, true, 1.0, false}, {"delta", {9}}}});
  model.add({.name = "half", .parameters = {{"h", {65}}}, .param_dtype = Dtype::bf16});
  return model;
}

// Runs a step of all units; `use` is given each view, inside of its hooks.
using Use = std::function<void(int unit, bool backward, const View& view)>;

void pass(Runtime& runtime, const Use& use) {
  runtime.forward(kRoot, [&](const View& root) {
    use(0, false, root);
    for (int u = 1; u < 4; ++u) runtime.forward({u}, [&](const View& view) { use(u, false, view); });
  });
  runtime.backward(kRoot, [&](const View& root) {
    for (int u = 3; u > 0; --u) runtime.backward({u}, [&](const View& view) { use(u, true, view); });
    use(0, true, root);
  });
}

// The error of `read`, in the hook of `unit`.
std::string error_in(Runtime& runtime, int unit, bool backward, const std::function<void(const View&)>& read) {
  std::string text;
  runtime.step([&](MicroBatch) {
    pass(runtime, [&](int at, bool in_backward, const View& view) {
      if (at == unit && in_backward == backward) text = toy::error_of([&] { read(view); });
    });
    return 0.0;
  });
  return text;
}

TEST(Views, WhatIsAskedForWronglyIsNamed) {
  const auto parameter = [](int index) { return [index](const View& view) { view.parameter(index); }; };
  const auto parameter_bf16 = [](int index) { return [index](const View& view) { view.parameter_bf16(index); }; };
  const auto gradient = [](int index) { return [index](const View& view) { view.gradient(index); }; };
  const auto gradient_bf16 = [](int index) { return [index](const View& view) { view.gradient_bf16(index); }; };
  toy::for_each_way({1, 2}, [&](const toy::Way& way) {
    toy::run(toy::job(way), units_of_all_kinds(), [&](Runtime& runtime) {
      const std::string narrow =
          "parameter \"h\" of unit \"half\" is in bf16 and is asked for in fp32 (ask for parameter_bf16 and "
          "gradient_bf16, "
          "or set [precision] param_dtype = \"fp32\")";
      const std::string wide =
          "parameter \"a\" of unit \"root\" is in fp32 and is asked for in bf16 (ask for parameter and gradient, or "
          "set "
          "[precision] param_dtype = \"bf16\")";
      EXPECT_EQ(error_in(runtime, 3, false, parameter(0)), narrow);
      EXPECT_EQ(error_in(runtime, 3, true, gradient(0)), narrow);
      EXPECT_EQ(error_in(runtime, 0, false, parameter_bf16(0)), wide);
      EXPECT_EQ(error_in(runtime, 0, true, gradient_bf16(0)), wide);
      EXPECT_EQ(
          error_in(runtime, 1, true, parameter(0)),
          "parameter \"table\" of unit \"embedding\" is read in backward, which its unit says it does without (set "
          "UnitSpec::needs_parameters_in_backward)");
      EXPECT_EQ(error_in(runtime, 2, true, gradient(0)),
                "parameter \"base\" of unit \"adapter\" is frozen and has no gradient (add nothing to it)");
      EXPECT_EQ(error_in(runtime, 2, false, gradient(1)),
                "parameter \"delta\" of unit \"adapter\" has no gradient in a forward hook (add to it in backward)");
      for (const auto& fine : {parameter(0), parameter(1)}) EXPECT_EQ(error_in(runtime, 2, true, fine), "no error");
      EXPECT_EQ(error_in(runtime, 3, true, gradient_bf16(0)), "no error");
      EXPECT_EQ(error_in(runtime, 1, true, gradient(0)), "no error");
    });
  });
}

// Whatever the strategy keeps: the same error, not the luck of a copy that is still there.
TEST(Views, AViewThatOutlivesItsHookIsStale) {
  const std::string outside =
      "parameter \"delta\" of unit \"adapter\" is read outside of its unit's hooks (read it between before_forward and "
      "after_forward, or backward's, or by Runtime::read or Runtime::whole)";
  const std::string gradient_outside =
      "parameter \"delta\" of unit \"adapter\" is given a gradient outside of its unit's hooks (add to it between "
      "before_backward and after_backward)";
  toy::for_each_way({1, 2}, [&](const toy::Way& way) {
    toy::run(toy::job(way), units_of_all_kinds(), [&](Runtime& runtime) {
      View forward, backward;
      const auto expect_stale = [&](const View& view) {
        EXPECT_EQ(toy::error_of([&] { view.parameter(1); }), outside) << way.text();
        EXPECT_EQ(toy::error_of([&] { view.parameter_memory(1); }), outside) << way.text();
      };
      for (int s = 0; s < 2; ++s) {
        if (s > 0) expect_stale(backward);
        runtime.step([&](MicroBatch) {
          pass(runtime, [&](int unit, bool in_backward, const View& view) {
            // In another use of the same unit, too.
            if (unit == 2 && in_backward) expect_stale(forward);
            if (unit == 2) (in_backward ? backward : forward) = view;
            if (unit == 3) expect_stale(forward);
            if (unit == 1 && in_backward) expect_stale(backward);
          });
          EXPECT_EQ(toy::error_of([&] { backward.gradient(1); }), gradient_outside) << way.text();
          return 0.0;
        });
      }
      runtime.evaluate([&] { expect_stale(forward); });
      EXPECT_ANY_THROW(runtime.step([&](MicroBatch) -> double {
        forward = runtime.before_forward({2});
        EXPECT_NO_THROW(forward.parameter(1));
        throw std::runtime_error("no luck");
      }));
      expect_stale(forward);
    });
  });
}

// Over [precision] and over the program's own word; bytes and traffic are those of what is computed in.
TEST(Views, AUsersWordOnAUnitsFormatIsWhatItIsComputedIn) {
  toy::for_each_way({1, 2, 3}, [](const toy::Way& way) {
    for (const char* all : {"fp32", "bf16"}) {
      Job job = toy::job(way);
      job.precision.param_dtype = all;
      for (const auto& [match, dtype] :
           {std::pair{"h.0.x", Dtype::fp32}, std::pair{"h.1", Dtype::bf16}, std::pair{"root", Dtype::fp32}}) {
        job.strategy.units.push_back({.match = match, .where = "test"});
        job.strategy.units.back().param_dtype = {dtype, "test"};
      }
      const Model model = toy::tree(true);  // h.0.x in bf16
      const Dtype rest = all == std::string("bf16") ? Dtype::bf16 : Dtype::fp32;
      const Dtype expected[] = {Dtype::fp32, rest, Dtype::fp32, Dtype::bf16};
      toy::run(job, model, [&](Runtime& runtime) {
        toy::step(runtime, 0);
        const Report report = runtime.report();
        EXPECT_EQ(report.measured.bytes, report.predicted.bytes) << way.text() << " in " << all;
        EXPECT_EQ(report.traffic.gather.bytes, report.traffic_declared.gather.bytes) << way.text() << " in " << all;
        EXPECT_EQ(report.traffic.reduce.bytes, report.traffic_declared.reduce.bytes) << way.text() << " in " << all;
        for (int u = 0; u < model.unit_count(); ++u)
          runtime.evaluate([&] {
            runtime.forward({u},
                            [&](const View& view) { EXPECT_EQ(view.dtype(), expected[u]) << way.text() << ", " << u; });
          });
      });
    }
  });
}

TEST(Views, AUnitWhoseBackwardDoesWithoutItsParametersIsGatheredOnceLess) {
  for (const bool overlap : {false, true})
    for (const int microbatches : {1, 3}) {
      const auto gathers = [&](bool needs) {
        Model model({.name = "root", .parameters = {{"a", {100}}}});
        model.add({.name = "embedding", .parameters = {{"table", {500}}}, .needs_parameters_in_backward = needs});
        model.add({.name = "h", .parameters = {{"h", {100}}}});
        Traffic traffic;
        toy::run(toy::job({"zero3", 4, overlap}, microbatches), model, [&](Runtime& runtime) {
          toy::step(runtime, 0);
          EXPECT_EQ(runtime.report().traffic.gather.count, runtime.report().traffic_declared.gather.count);
          if (runtime.rank().first()) traffic = runtime.report().traffic.gather;
        });
        return traffic;
      };
      const Traffic with = gathers(true), without = gathers(false);
      EXPECT_EQ(with.count, 6 * microbatches);
      EXPECT_EQ(without.count, 5 * microbatches);
      EXPECT_EQ(with.bytes - without.bytes, 3 * 128 * 4 * microbatches);
    }
}

// In a process of its own, where the rank's thread is another one than the test's.
void ask(const std::function<void(const View&)>& use) {
  toy::run(toy::job(1, "zero3"), units_of_all_kinds(), [&](Runtime& runtime) {
    runtime.step([&](MicroBatch) {
      pass(runtime, [&](int unit, bool backward, const View& view) {
        if (unit == 0 && backward) use(view);
      });
      return 0.0;
    });
  });
}

TEST(ViewsDeathTest, AnIndexThatTheUnitDoesNotHaveStopsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const char* text = "a unit has a parameter of that index";
  EXPECT_DEATH(ask([](const View& view) { view.parameter(-1); }), text);
  EXPECT_DEATH(ask([](const View& view) { view.parameter(1); }), text);
  EXPECT_DEATH(ask([](const View& view) { view.parameter_bf16(99); }), text);
  EXPECT_DEATH(ask([](const View& view) { view.gradient(1); }), text);
  EXPECT_DEATH(ask([](const View& view) { view.gradient_memory(-1); }), text);
  EXPECT_DEATH(toy::run(toy::job(1, "zero3"), units_of_all_kinds(),
                        [](Runtime& runtime) { runtime.whole(kRoot, [](const Values& it) { it.parameter(1); }); }),
               text);
}

}  // namespace
}  // namespace reshard
