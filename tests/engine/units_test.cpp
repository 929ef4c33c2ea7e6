// Units as programs have them: partly frozen, tied, of awkward sizes, not to be cut, run several times, recomputed.

#include <cmath>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "tests/engine/ways.h"

namespace reshard {
namespace {

Parameter frozen(const std::string& name, int64_t elements) {
  return {.name = name, .shape = {elements}, .trainable = false};
}

// Contributions that do not depend on where a parameter lies: whole numbers by its name.
float term(const std::string& name, int rank, int64_t i) {
  return static_cast<float>((static_cast<int64_t>(name.size()) * 3 + name.back() + rank * 5 + i) % 13 - 6);
}

void pass(Runtime& runtime, int unit = 0) {
  const Model& model = runtime.model();
  runtime.forward({unit}, [&](const View&) {
    for (int u = 1; u < model.unit_count() && unit == 0; ++u) runtime.forward({u}, [](const View&) {});
  });
  runtime.backward({unit}, [&](const View& root) {
    const auto add = [&](int u, const View& view) {
      for (std::size_t p = 0; p < model.spec({u}).parameters.size(); ++p) {
        const Parameter& parameter = model.spec({u}).parameters[p];
        if (!parameter.trainable) continue;
        const std::span<float> gradient = view.gradient(static_cast<int>(p));
        for (std::size_t i = 0; i < gradient.size(); ++i)
          gradient[i] += term(parameter.name, runtime.rank().index(), static_cast<int64_t>(i));
      }
    };
    for (int u = model.unit_count() - 1; u > 0; --u) runtime.backward({u}, [&, u](const View& view) { add(u, view); });
    add(0, root);
  });
}

StepResult step(Runtime& runtime) {
  return runtime.step([&](MicroBatch) {
    pass(runtime);
    return 0.0;
  });
}

int64_t up(int64_t elements, int64_t multiple) {
  return (elements + multiple - 1) / multiple * multiple;
}

TEST(Units, PartlyFrozenOneHasMemoryStateAndTrafficForTheTrainablePartAlone) {
  constexpr int64_t kTrained = 300, kFrozen = 1000;
  Model model({.name = "root"});
  model.add({.name = "h", .parameters = {frozen("base", kFrozen), {"delta", {kTrained}}}});
  toy::for_each_way({1, 2, 3, 4}, [&](const toy::Way& way) {
    toy::run(toy::job(way), model, [&](Runtime& runtime) {
      const int64_t shards = runtime.report().shards, n = way.ranks;
      const int64_t trained = up(up(kTrained, 64), 64 * shards) / shards * 4;  // bytes of a shard
      const int64_t base = up(up(kFrozen, 64), 64 * shards) / shards * 4;
      EXPECT_EQ(toy::live(runtime, MemoryCategory::optimizer_state), 2 * trained) << way.text();
      EXPECT_EQ(toy::live(runtime, MemoryCategory::sharded_parameters), trained + base) << way.text();
      runtime.step([&](MicroBatch) {
        runtime.forward(kRoot, [&](const View&) { runtime.forward({1}, [](const View&) {}); });
        runtime.backward(kRoot, [&](const View&) {
          runtime.backward({1}, [&](const View&) {
            EXPECT_EQ(toy::live(runtime, MemoryCategory::gradients), trained * shards) << way.text();
          });
        });
        return 0.0;
      });
      const TrafficByOp& traffic = runtime.report().traffic;
      EXPECT_EQ(traffic.reduce.bytes, trained * (shards - 1)) << way.text();
      EXPECT_EQ(traffic.all_reduce.bytes, 2 * trained * (n / shards - 1) / (n / shards)) << way.text();
    });
  });
}

TEST(Units, PartlyFrozenOneTrainsAsTwoUnitsDo) {
  Model mixed({.name = "root", .parameters = {{"a", {100}}}});
  mixed.add({.name = "h", .parameters = {{"x", {65}}, frozen("base", 500), {"y", {1}}}});
  Model apart({.name = "root", .parameters = {{"a", {100}}}});
  apart.add({.name = "h", .parameters = {{"x", {65}}, {"y", {1}}}});
  apart.add({.name = "base", .parameters = {frozen("base", 500)}});
  toy::for_each_way({1, 2, 3, 4}, [&](const toy::Way& way) {
    std::vector<double> norms[2];
    const auto train = [&](const Model& model, std::vector<double>& norm) {
      return toy::values_after(toy::job(way), model, [&](Runtime& runtime) {
        for (int s = 0; s < 3; ++s) {
          const double measured = step(runtime).gradient_norm;
          if (runtime.rank().first()) norm.push_back(measured);
        }
      });
    };
    EXPECT_EQ(train(mixed, norms[0]), train(apart, norms[1])) << way.text();
    EXPECT_EQ(norms[0], norms[1]) << way.text();
  });
}

TEST(Units, TiedParametersAreOneWithTheSumOfBothUses) {
  Model tied({.name = "root", .parameters = {{"embed", {7, 11}}, {"other", {65}}}});
  tied = Model(
      {.name = "root",
       .parameters = {{"embed", {7, 11}}, {"other", {65}}, {.name = "head", .shape = {11, 7}, .same_as = "embed"}}});
  toy::for_each_way({1, 2, 3, 4}, [&](const toy::Way& way) {
    double norm = 0;
    const toy::Values gradients = toy::gradients_after(toy::job(way), tied, [&](Runtime& runtime) {
      const double measured = step(runtime).gradient_norm;
      if (runtime.rank().first()) norm = measured;
    });
    const auto mean = [&](const std::vector<std::string>& names, int64_t i) {
      float sum = 0;
      for (const std::string& name : names)
        for (int rank = 0; rank < way.ranks; ++rank) sum += term(name, rank, i);
      return sum * static_cast<float>(1.0 / way.ranks);
    };
    double squares = 0;
    for (std::size_t i = 0; i < 77; ++i) {
      const float both = mean({"embed", "head"}, static_cast<int64_t>(i));
      ASSERT_EQ(gradients.at("embed")[i], both) << way.text();
      squares += static_cast<double>(both) * static_cast<double>(both);
    }
    for (int64_t i = 0; i < 65; ++i) squares += std::pow(static_cast<double>(mean({"other"}, i)), 2);
    EXPECT_EQ(gradients.at("head"), gradients.at("embed")) << way.text();
    EXPECT_NEAR(norm, std::sqrt(squares), 1e-9 * norm) << "each element counts once, " << way.text();
  });
}

// Whole numbers have no rounding: one process and every sharding leave the same gradients.
TEST(Units, OfEverySizeAroundTheRanksReduceToTheSameGradients) {
  for (const int ranks : {1, 2, 3, 4, 8}) {
    Model model({.name = "root", .parameters = {{"scalar", {}}}});
    for (const int64_t size : {1, ranks - 1, ranks, ranks + 1, 61, 127, 64 * ranks + 1})
      if (const std::string name = "w" + std::to_string(model.unit_count()); size > 0)
        model.add({.name = name, .parameters = {{name, {size}}}});
    toy::for_each_way({ranks}, [&](const toy::Way& way) {
      Job job = toy::job(way);
      job.train.divisor = "none";
      double norm = 0;
      const toy::Values gradients = toy::gradients_after(job, model, [&](Runtime& runtime) {
        const double measured = step(runtime).gradient_norm;
        if (runtime.rank().first()) norm = measured;
      });
      double squares = 0;
      for (const auto& [name, values] : gradients)
        for (std::size_t i = 0; i < values.size(); ++i) {
          float sum = 0;
          for (int rank = 0; rank < ranks; ++rank) sum += term(name, rank, static_cast<int64_t>(i));
          ASSERT_EQ(values[i], sum) << name << ", " << way.text();
          squares += static_cast<double>(sum) * static_cast<double>(sum);
        }
      EXPECT_EQ(norm, std::sqrt(squares)) << way.text();
    });
  }
}

// ---- A program's own optimizer over fragments

// Remembers what it was given; an update is one of gradient descent.
class Watching final : public Optimizer {
 public:
  struct Seen {
    std::string name;
    int64_t offset, length;
    bool operator<(const Seen& other) const {
      return std::tie(name, offset, length) < std::tie(other.name, other.offset, other.length);
    }
  };
  struct Log {
    std::mutex mutex;
    std::set<Seen> seen;
  };
  explicit Watching(Log& log) : log_(log) {}
  std::string name() const override { return "watching"; }
  std::vector<std::string> state_names() const override { return {"sum"}; }
  void update(const Fragment& part, const StepInfo& info) const override {
    {
      const std::lock_guard lock(log_.mutex);
      log_.seen.insert({std::string(part.name), part.offset, part.length});
    }
    for (int64_t i = 0; i < part.length; ++i) {
      part.state[0][i] += part.gradient[i] * info.gradient_scale;
      part.values[i] -= static_cast<float>(info.lr) * part.state[0][i];
    }
  }

 private:
  Log& log_;
};

Model with_blocks(int64_t block, int64_t uncut) {
  Model model({.name = "root", .parameters = {{"a", {33}}}});
  model.add(
      {.name = "h.0", .parameters = {{"x", {50}}, {.name = "blocks", .shape = {30, 40}, .block = block}, {"y", {7}}}});
  model.add({.name = "h.1",
             .parameters = {{"z", {129}}, {.name = "matrix", .shape = {20, 20}, .block = uncut}, {"v", {65}}}});
  return model;
}

TEST(Units, AProgramsOptimizerIsGivenWholeBlocksAndUncutParametersAndTrainsTheSameBits) {
  toy::for_each_way({1, 2, 3, 4}, [](const toy::Way& way) {
    Watching::Log log, plain;
    const auto train = [&](const Model& model, Watching::Log& to) {
      Job job = toy::job(way, 2);
      job.optimizer.name = "program";
      return toy::values_after(
          job, model,
          [](Runtime& runtime) {
            for (int s = 0; s < 3; ++s) toy::step(runtime, s);
          },
          [&] { return std::make_unique<Watching>(to); });
    };
    EXPECT_EQ(train(with_blocks(40, Parameter::kUncut), log), train(with_blocks(1, 1), plain)) << way.text();
    std::map<std::string, int64_t> elements;
    for (const auto& [name, offset, length] : log.seen) {
      elements[name] += length;
      if (name == "blocks") {
        EXPECT_EQ(offset % 40, 0) << way.text();
        EXPECT_EQ(length % 40, 0) << way.text();
      }
      if (name == "matrix") {
        EXPECT_EQ(length, 400) << way.text();
      }
    }
    EXPECT_EQ(elements, (std::map<std::string, int64_t>{
                            {"a", 33}, {"x", 50}, {"blocks", 1200}, {"y", 7}, {"z", 129}, {"matrix", 400}, {"v", 65}}))
        << way.text();
  });
}

// ---- Orders

Model row(int units) {
  Model model({.name = "root", .parameters = {{"a", {100}}}});
  for (int u = 0; u < units; ++u)
    model.add({.name = "h." + std::to_string(u), .parameters = {{"w" + std::to_string(u), {100}}}});
  return model;
}

// Backward passes that run every unit's forward again first.
double recomputed(Runtime& runtime, bool around_all) {
  const int units = runtime.model().unit_count();
  const auto none = [](const View&) {};
  runtime.forward(kRoot, [&](const View&) {
    for (int u = 1; u < units; ++u) runtime.forward({u}, none);
  });
  runtime.backward(kRoot, [&](const View&) {
    for (int u = 1; u < units && around_all; ++u) runtime.forward({u}, none);
    for (int u = units - 1; u > 0; --u)
      runtime.backward({u}, [&](const View&) {
        if (!around_all) runtime.forward({u}, none);
      });
  });
  return 0.0;
}

TEST(Units, ARecomputeGathersNothingWhereTheUnitIsWholeAndOnceWhereItIsNot) {
  constexpr int kBlocks = 4;
  for (const bool overlap : {false, true})
    for (const int ranks : {2, 4}) {
      const auto gathers = [&](const char* strategy, bool around_all) {
        int64_t count = 0;
        toy::run(toy::job({strategy, ranks, overlap}), row(kBlocks), [&](Runtime& runtime) {
          const auto at_rest = toy::live(runtime);
          runtime.step([&](MicroBatch) { return recomputed(runtime, around_all); });
          EXPECT_EQ(toy::live(runtime), at_rest);
          if (runtime.rank().first()) count = runtime.report().traffic.gather.count;
        });
        return count;
      };
      for (const bool around_all : {false, true}) {
        // Inside its own backward a unit is whole. A segment's recompute gathers it, and its backward finds it there.
        EXPECT_EQ(gathers("zero3", around_all), 2 * (kBlocks + 1));
        EXPECT_EQ(gathers("zero2", around_all), kBlocks + 1);
        EXPECT_EQ(gathers("root_no_reshard", around_all), 2 * kBlocks + 1);
      }
    }
}

TEST(Units, RunSeveralTimesInsideAndBesideOneAnotherReduceOnceAndGiveTheSum) {
  toy::for_each_way({1, 2, 3, 4}, [](const toy::Way& way) {
    Model model({.name = "root", .parameters = {{"a", {100}}}});
    const Unit outer = model.add({.name = "h.0", .parameters = {{"w", {130}}}, .repeats = 3});
    model.add({.name = "h.0.x", .parameters = {{"x", {65}}}, .repeats = 2}, outer);
    Job job = toy::job(way);
    job.train.divisor = "none";
    const toy::Values gradients = toy::gradients_after(job, model, [&](Runtime& runtime) {
      runtime.step([&](MicroBatch at) {
        toy::Pass(runtime, at).forward(0);
        const std::function<void(int)> backward = [&](int unit) {
          for (int run = 0; run < model.spec({unit}).repeats; ++run)
            runtime.backward({unit}, [&](const View& view) {
              if (unit < 2) backward(unit + 1);
              for (float& value : view.gradient(0)) value += static_cast<float>(runtime.rank().index() + 1);
            });
        };
        backward(0);
        return 0.0;
      });
      const TrafficByOp traffic = runtime.report().traffic;
      const int shards = runtime.report().shards;
      EXPECT_EQ(traffic.reduce.count, shards > 1 ? 3 : 0) << way.text();
      EXPECT_EQ(traffic.all_reduce.count, shards < way.ranks ? 3 : 0) << way.text();
    });
    const auto sum = static_cast<float>(way.ranks * (way.ranks + 1) / 2);
    EXPECT_EQ(gradients.at("a"), std::vector<float>(100, sum)) << way.text();
    EXPECT_EQ(gradients.at("w"), std::vector<float>(130, 3 * sum)) << way.text();
    EXPECT_EQ(gradients.at("x"), std::vector<float>(65, 6 * sum)) << way.text();
  });
}

TEST(Units, TheLargestElementIsTheNormWhereTheJobSaysSoAndTheGradientIsClippedByIt) {
  toy::for_each_way({1, 2, 3, 4}, [](const toy::Way& way) {
    Job job = toy::job(way);
    job.optimizer.norm = "inf";
    job.optimizer.clip_norm = 0.5;
    job.train.divisor = "none";
    job.optimizer.name = "program";
    Watching::Log log;
    const Model model = row(3);
    double norm = 0;
    const toy::Values values = toy::values_after(
        job, model,
        [&](Runtime& runtime) {
          const double measured = runtime
                                      .step([&](MicroBatch at) {
                                        toy::Pass(runtime, at).forward(0);
                                        runtime.backward(kRoot, [&](const View& view) { view.gradient(0)[99] -= 4; });
                                        runtime.backward({3}, [&](const View& view) { view.gradient(0)[70] += 1; });
                                        return 0.0;
                                      })
                                      .gradient_norm;
          if (runtime.rank().first()) norm = measured;
        },
        [&] { return std::make_unique<Watching>(log); });
    EXPECT_EQ(norm, 4.0 * way.ranks) << way.text();
    const auto factor = static_cast<float>(0.5 / (norm + 1e-6));
    const auto lr = static_cast<float>(job.optimizer.lr);
    EXPECT_EQ(values.at("a")[99], toy::initial("a", 99) - lr * (-4.0F * static_cast<float>(way.ranks) * factor));
    EXPECT_EQ(values.at("w2")[70], toy::initial("w2", 70) - lr * (static_cast<float>(way.ranks) * factor));
    EXPECT_EQ(values.at("a")[98], toy::initial("a", 98));
  });
}

}  // namespace
}  // namespace reshard
