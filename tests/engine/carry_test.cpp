// Gradients kept over several steps, as a program that accumulates across steps asks for it: what an update then gets
// is their sum, once.

#include <cmath>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "model/layout.h"
#include "optim/clip.h"
#include "tests/engine/reference.h"
#include "tests/engine/ways.h"

namespace reshard {
namespace {

using toy::Floats;

float term(int64_t number, int rank, int64_t i) {
  return toy::contribution(1.0F, number, rank, 0, 0, i);
}

// A step up to its end: the caller carries, skips or updates.
double begin(Runtime& runtime, int64_t number) {
  runtime.begin_step();
  runtime.begin_micro_batch();
  const toy::Terms terms{.term = [&](int, int64_t i) { return term(number, runtime.rank().index(), i); }};
  toy::forward(runtime, terms);
  toy::backward(runtime, terms);
  return runtime.gradient_norm();
}

void carry(Runtime& runtime, int64_t number) {
  begin(runtime, number);
  runtime.carry();
  runtime.end_step(0);
}

void update(Runtime& runtime, int64_t number) {
  runtime.update(begin(runtime, number));
  runtime.end_step(0);
}

struct Formats {
  const char* param;
  const char* reduce;
};
const Formats kFormats[] = {{"fp32", "fp32"}, {"bf16", "fp32"}, {"bf16", "bf16"}};

Job job_of(const toy::Way& way, const Formats& formats = kFormats[0]) {
  Job job = toy::job(way);
  job.precision.param_dtype = formats.param;
  job.precision.reduce_dtype = formats.reduce;
  return job;
}

Dtype dtype(const char* text) {
  return std::string_view(text) == "bf16" ? Dtype::bf16 : Dtype::fp32;
}

// One step's reduced gradient, by hand: the ranks' terms in tree order, then the divisor.
Floats reduced(int64_t number, const Job& job, const Formats& formats, std::size_t elements) {
  std::vector<Floats> terms;
  for (int rank = 0; rank < job.mesh.ranks; ++rank) {
    Floats of_rank;
    for (std::size_t i = 0; i < elements; ++i)
      of_rank.push_back(toy::rounded(dtype(formats.param), term(number, rank, static_cast<int64_t>(i))));
    terms.push_back(std::move(of_rank));
  }
  Floats sum = toy::tree_sum(std::move(terms), dtype(formats.reduce));
  const auto scale = static_cast<float>(1.0 / job.mesh.ranks);
  if (job.mesh.ranks > 1)
    for (float& value : sum) value = toy::rounded(dtype(formats.reduce), value * scale);
  return sum;
}

// The sum of several steps' gradients, from the first on.
Floats carried_sum(const std::vector<int64_t>& numbers, const Job& job, const Formats& formats, std::size_t elements) {
  Floats sum = reduced(numbers[0], job, formats, elements);
  for (std::size_t n = 1; n < numbers.size(); ++n) {
    const Floats more = reduced(numbers[n], job, formats, elements);
    for (std::size_t i = 0; i < elements; ++i) sum[i] = toy::rounded(dtype(formats.reduce), sum[i] + more[i]);
  }
  return sum;
}

void expect_sum(const toy::Values& gradients, const std::vector<int64_t>& numbers, const Job& job,
                const Formats& formats, const std::string& where) {
  for (const auto& [name, values] : gradients)
    EXPECT_EQ(values, carried_sum(numbers, job, formats, values.size())) << name << ", " << where;
}

TEST(Carry, AnUpdateGetsTheSumOfWhatWasCarriedAndItsOwnOnce) {
  toy::for_each_way({1, 3, 4}, [](const toy::Way& way) {
    for (const Formats& formats : kFormats) {
      const Job job = job_of(way, formats);
      const auto after = [&](const toy::Body& body) { return toy::gradients_after(job, toy::tree(), body); };
      expect_sum(after([](Runtime& runtime) {
                   for (const int64_t number : {1, 2, 3}) carry(runtime, number);
                   update(runtime, 4);
                 }),
                 {1, 2, 3, 4}, job, formats, way.text());
      expect_sum(after([](Runtime& runtime) {
                   carry(runtime, 1);
                   update(runtime, 2);
                   update(runtime, 3);
                 }),
                 {3}, job, formats, way.text());
      expect_sum(after([](Runtime& runtime) {
                   carry(runtime, 1);
                   runtime.zero_gradients();
                   carry(runtime, 2);
                   update(runtime, 3);
                 }),
                 {2, 3}, job, formats, way.text());
    }
  });
}

TEST(Carry, TheNormIsThatOfTheSum) {
  toy::for_each_way({1, 3}, [](const toy::Way& way) {
    const Job job = toy::job(way);
    toy::run(job, toy::tree(), [&](Runtime& runtime) {
      carry(runtime, 1);
      optim::NormSum sum;
      for (const UnitSpec& unit : runtime.model().units())
        for (const Parameter& parameter : unit.parameters)
          sum.add(carried_sum({1, 2}, job, kFormats[0], static_cast<std::size_t>(parameter.elements())));
      const double norm = begin(runtime, 2);
      EXPECT_EQ(norm, sum.norm()) << way.text();
      runtime.update(norm);
      runtime.end_step(0);
    });
  });
}

// A step that fails, and one that is skipped, leave what earlier ones carried.
TEST(Carry, AStepThatFailsOrIsSkippedKeepsWhatWasCarried) {
  toy::for_each_way({1, 2, 3}, [](const toy::Way& way) {
    const Job job = toy::job(way);
    const toy::Values gradients = toy::gradients_after(job, toy::tree(), [&](Runtime& runtime) {
      carry(runtime, 1);
      const auto carrying = toy::live(runtime);
      EXPECT_ANY_THROW(runtime.step([&](MicroBatch) {
        runtime.forward(kRoot, [&](const View&) {});
        runtime.backward(kRoot, [&](const View&) {});
        if (runtime.rank().index() + 1 == way.ranks) throw std::runtime_error("no luck");
        return 0.0;
      }));
      EXPECT_EQ(toy::live(runtime), carrying) << way.text();
      begin(runtime, 50);
      runtime.skip();
      runtime.end_step(0);
      EXPECT_EQ(toy::live(runtime), carrying) << way.text();
      update(runtime, 2);
    });
    expect_sum(gradients, {1, 2}, job, kFormats[0], way.text());
  });
}

// Between carry() and end_step() on one rank or on all, and whatever a program then does: the gradient counts once.
TEST(Carry, AFailureAfterTheCarryCountsItsGradientOnceWhateverAProgramDoesNext) {
  using Next = std::function<void(Runtime&)>;
  const auto throws = [](Runtime& runtime, const std::function<void()>& call, int times) {
    EXPECT_ANY_THROW({
      try {
        call();
      } catch (...) {
        for (int i = 0; i < times; ++i) runtime.abandon();
        throw;
      }
    });
  };
  const auto last_fails = [&](int times) -> Next {
    return [=](Runtime& runtime) {
      throws(runtime, [&] {
        if (runtime.rank().index() + 1 == runtime.rank().count()) throw std::runtime_error("the log is full");
        runtime.end_step(0);
      }, times);
    };
  };
  const auto bad_loss = [](Runtime& runtime) { runtime.end_step(std::nan("")); };  // ends the run if nobody catches
  const std::vector<Next> nexts{
      last_fails(1),
      last_fails(3),
      [&](Runtime& runtime) { throws(runtime, [&] { bad_loss(runtime); }, 1); },
      [&](Runtime& runtime) {  // end_step() again
        throws(runtime, [&] { bad_loss(runtime); }, 0);
        EXPECT_EQ(runtime.steps_done(), 0);
        runtime.end_step(0);
      },
      [&](Runtime& runtime) { throws(runtime, [&] { runtime.carry(); }, 1); },
      [&](Runtime& runtime) { throws(runtime, [&] { runtime.update(1); }, 1); },
      [&](Runtime& runtime) {  // and a step that fails
        last_fails(1)(runtime);
        throws(runtime, [&] {
          runtime.begin_step();
          throw std::runtime_error("no luck");
        }, 1);
      },
  };
  toy::for_each_way({1, 2, 3}, [&](const toy::Way& way) {
    const Job job = toy::job(way);
    for (std::size_t n = 0; n < nexts.size(); ++n)
      for (const bool drops : {false, true}) {
        if (drops && n > 0) continue;
        const toy::Values gradients = toy::gradients_after(job, toy::tree(), [&](Runtime& runtime) {
          begin(runtime, 1);
          runtime.carry();
          nexts[n](runtime);
          EXPECT_EQ(runtime.steps_done(), 1) << way.text() << ", " << n << ": the step is done";
          if (drops) runtime.zero_gradients();
          update(runtime, 2);
        });
        expect_sum(gradients, drops ? std::vector<int64_t>{2} : std::vector<int64_t>{1, 2}, job, kFormats[0],
                   way.text() + ", " + std::to_string(n));
      }
  });
}

TEST(Carry, WhatIsCarriedIsCountedUntilItIsUsedOrDropped) {
  toy::for_each_way({1, 2, 3}, [](const toy::Way& way) {
    for (const Formats& formats : kFormats)
      toy::run(job_of(way, formats), toy::tree(), [&](Runtime& runtime) {
        const int64_t at_rest = toy::live(runtime, MemoryCategory::gradients);
        int64_t carried = 0;
        for (const UnitSpec& unit : runtime.model().units())
          carried +=
              model::Layout(unit, runtime.report().shards).trainable().shard_elements * bytes_of(dtype(formats.reduce));
        for (int round = 0; round < 2; ++round) {
          for (int step = 0; step < 2; ++step) {
            carry(runtime, step);
            EXPECT_EQ(toy::live(runtime, MemoryCategory::gradients), at_rest + carried) << way.text();
          }
          if (round == 0)
            runtime.zero_gradients();
          else
            update(runtime, 1);
          EXPECT_EQ(toy::live(runtime, MemoryCategory::gradients), at_rest) << way.text();
        }
      });
  });
}

TEST(Carry, AStrategyIsNotSwitchedMeanwhile) {
  toy::for_each_way({1, 2}, [](const toy::Way& way) {
    toy::run(toy::job(way), toy::tree(), [&](Runtime& runtime) {
      const auto change = [&] { runtime.switch_strategy({toy::plugin("zero3"), {}, "test"}); };
      carry(runtime, 1);
      EXPECT_EQ(toy::error_of(change),
                "a strategy is not switched while gradients are carried over to the next update (update first, or drop "
                "them with Runtime::zero_gradients)");
      runtime.zero_gradients();
      EXPECT_EQ(toy::error_of(change), "no error");
      update(runtime, 2);
    });
  });
}

// The last rank alone drops what all carry: nobody updates before the others drop it too.
TEST(Carry, DroppedOnOneRankAloneEndsTheNextStepOnAll) {
  toy::for_each_way({2, 3}, [](const toy::Way& way) {
    const std::string refusal = fmt::format(
        "rank {} has dropped carried gradients 1 times, rank 0 0 times (every rank must call Runtime::zero_gradients "
        "where the others do)",
        way.ranks - 1);
    const auto train = [&](bool alone) {
      return toy::values_after(toy::job(way), toy::tree(), [&](Runtime& runtime) {
        const bool last = runtime.rank().index() + 1 == way.ranks;
        carry(runtime, 1);
        if (!alone || last) runtime.zero_gradients();
        if (alone) {
          EXPECT_EQ(toy::error_of([&] { update(runtime, 2); }), refusal) << way.text();
          runtime.abandon();
          EXPECT_EQ(toy::error_of([&] { toy::step(runtime, 2); }), refusal) << way.text();
          if (!last) runtime.zero_gradients();
        }
        update(runtime, 2);
      });
    };
    EXPECT_EQ(train(true), train(false)) << way.text();
  });
}

}  // namespace
}  // namespace reshard
