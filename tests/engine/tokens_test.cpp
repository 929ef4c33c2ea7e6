// What summed gradients and losses are divided by: ranks and micro-batches, tokens, or nothing.

#include <algorithm>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "tests/engine/reference.h"
#include "tests/engine/ways.h"

namespace reshard {
namespace {

using toy::Floats;

constexpr int kMicroBatches = 2;

// Ranks have 1 and 9 tokens in turn; the second micro-batch has two more.
int tokens(int rank, int micro_batch) {
  return (rank % 2 == 0 ? 1 : 9) + 2 * micro_batch;
}

int64_t tokens_of_all(int ranks) {
  int64_t sum = 0;
  for (int rank = 0; rank < ranks; ++rank)
    for (int m = 0; m < kMicroBatches; ++m) sum += tokens(rank, m);
  return sum;
}

float term(int rank, int micro_batch, int token, int64_t i) {
  return toy::contribution(1.0F, token, rank, micro_batch, 0, i);
}

// A micro-batch's summed gradient on one rank, added token by token to `sum`.
void add_tokens(Floats& sum, int rank, int micro_batch) {
  for (std::size_t i = 0; i < sum.size(); ++i)
    for (int t = 0; t < tokens(rank, micro_batch); ++t) sum[i] += term(rank, micro_batch, t, static_cast<int64_t>(i));
}

double loss_of(int rank, int micro_batch) {
  return 0.25 * tokens(rank, micro_batch) + rank;
}

// One backward adds all tokens, one after the other.
void backward(Runtime& runtime, int micro_batch, int unit) {
  const Model& model = runtime.model();
  runtime.backward({unit}, [&](const View& view) {
    for (int child = model.unit_count() - 1; child > 0; --child)
      if (model.parent({child}).index == unit) backward(runtime, micro_batch, child);
    for (int p = 0; p < static_cast<int>(model.spec({unit}).parameters.size()); ++p) {
      Floats sum(view.gradient(p).begin(), view.gradient(p).end());
      add_tokens(sum, runtime.rank().index(), micro_batch);
      std::ranges::copy(sum, view.gradient(p).begin());
    }
  });
}

StepResult step(Runtime& runtime, bool counts) {
  const int rank = runtime.rank().index();
  return runtime.step([&](MicroBatch at) {
    toy::Pass(runtime, at).forward(0);
    backward(runtime, at.index, 0);
    if (counts) runtime.count_tokens(tokens(rank, at.index));
    return loss_of(rank, at.index);
  });
}

// The sum over ranks and micro-batches in the strategy's order of adding.
Floats summed(const toy::Way& way, std::size_t elements) {
  const bool last = way.strategy == "replicate" || way.strategy == "zero1";
  Floats sum;
  std::vector<Floats> terms;
  for (int m = 0; m < kMicroBatches; ++m) {
    if (!last || m == 0) terms.assign(static_cast<std::size_t>(way.ranks), Floats(elements, 0.0F));
    for (int rank = 0; rank < way.ranks; ++rank) add_tokens(terms[static_cast<std::size_t>(rank)], rank, m);
    if (last && m + 1 < kMicroBatches) continue;
    const Floats more = toy::tree_sum(terms, Dtype::fp32);
    if (sum.empty()) {
      sum = more;
    } else {
      for (std::size_t i = 0; i < elements; ++i) sum[i] += more[i];
    }
  }
  return sum;
}

TEST(Tokens, RanksWithOneAndNineTokensWeighByTheirTokens) {
  toy::for_each_way({1, 2, 3, 4}, [](const toy::Way& way) {
    Job job = toy::job(way, kMicroBatches);
    job.train.divisor = "tokens";
    const auto all = static_cast<double>(tokens_of_all(way.ranks));
    const toy::Values gradients = toy::gradients_after(job, toy::tree(), [&](Runtime& runtime) {
      double losses = 0;
      for (int rank = 0; rank < way.ranks; ++rank)
        for (int m = 0; m < kMicroBatches; ++m) losses += loss_of(rank, m);
      EXPECT_DOUBLE_EQ(step(runtime, true).loss, losses / all) << way.text();
    });
    for (const auto& [name, values] : gradients) {
      for (std::size_t i = 0; i < values.size(); ++i) {  // one process over all tokens
        double sum = 0;
        for (int rank = 0; rank < way.ranks; ++rank)
          for (int m = 0; m < kMicroBatches; ++m)
            for (int t = 0; t < tokens(rank, m); ++t)
              sum += static_cast<double>(term(rank, m, t, static_cast<int64_t>(i)));
        ASSERT_NEAR(static_cast<double>(values[i]), sum / all, 1e-5) << name << ", " << way.text();
      }
      if (way.ranks == 1 && way.strategy != "replicate")
        continue;  // one rank's order is one shard's, not the strategy's
      Floats expected = summed(way, values.size());
      for (float& value : expected) value *= static_cast<float>(1.0 / all);
      EXPECT_EQ(values, expected) << name << ", " << way.text();
    }
  });
}

TEST(Tokens, ADivisorOfNoneLeavesTheSum) {
  toy::for_each_way({2, 3, 4}, [](const toy::Way& way) {
    Job job = toy::job(way, kMicroBatches);
    job.train.divisor = "none";
    const toy::Values gradients = toy::gradients_after(job, toy::tree(), [&](Runtime& runtime) {
      double losses = 0;
      for (int rank = 0; rank < way.ranks; ++rank)
        for (int m = 0; m < kMicroBatches; ++m) losses += loss_of(rank, m);
      EXPECT_DOUBLE_EQ(step(runtime, false).loss, losses) << way.text();
    });
    for (const auto& [name, values] : gradients) EXPECT_EQ(values, summed(way, values.size())) << way.text();
  });
}

// The last rank alone counts, in its second micro-batch alone.
TEST(Tokens, ARankWithoutTokensCountsNone) {
  toy::for_each_way({2, 3}, [](const toy::Way& way) {
    Job job = toy::job(way, kMicroBatches);
    job.train.divisor = "tokens";
    toy::run(job, toy::tree(), [&](Runtime& runtime) {
      const StepResult result = runtime.step([&](MicroBatch at) {
        toy::Pass(runtime, at)();
        if (runtime.rank().index() + 1 < way.ranks || at.index == 0) return 0.0;
        runtime.count_tokens(3);
        runtime.count_tokens(4);
        return 14.0;
      });
      EXPECT_EQ(result.loss, 2.0) << way.text();
    });
  });
}

TEST(Tokens, NoneCountedOnAnyRankIsAnErrorOnAllAndTheStepHasNotBeen) {
  toy::for_each_way({1, 3}, [](const toy::Way& way) {
    Job job = toy::job(way, kMicroBatches);
    job.train.divisor = "tokens";
    const auto train = [&](bool fail) {
      return toy::values_after(job, toy::tree(), [&](Runtime& runtime) {
        step(runtime, true);
        if (fail) {
          EXPECT_EQ(
              toy::error_of([&] { step(runtime, false); }),
              "default: no rank has counted a token in step 1 (call Runtime::count_tokens in every micro-batch, or "
              "use divisor = \"ranks\")")
              << way.text();
        }
        step(runtime, true);
      });
    };
    EXPECT_EQ(train(true), train(false)) << way.text();
  });
}

TEST(Tokens, WhatCannotBeCountedIsRefused) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  Job job = toy::job(1, "zero3", 1);  // of several ranks, the first to give up would end the others' step
  const auto refused = [&](std::vector<int64_t> counts, bool inside) {
    std::string error;
    toy::run(job, toy::tree(), [&](Runtime& runtime) {
      const std::string mine = toy::error_of([&] {
        if (inside) runtime.begin_step();
        for (const int64_t count : counts) runtime.count_tokens(count);
      });
      runtime.abandon();
      error = mine;
    });
    return error;
  };
  EXPECT_EQ(refused({1}, true),
            "default: tokens are counted and the divisor is \"ranks\" (use divisor = \"tokens\", or count none)");
  job.train.divisor = "tokens";
  EXPECT_EQ(refused({1}, false),
            "default: tokens are counted outside of a step, or after its gradients are reduced (call "
            "Runtime::count_tokens in a micro-batch)");
  EXPECT_EQ(refused({5, -1}, true),
            "default: -1 tokens are counted after 5 in step 0 (count the tokens of this micro-batch on this rank)");
  EXPECT_EQ(refused({kMost, 0}, true), "no error");
  EXPECT_EQ(refused({kMost, 1}, true),
            "default: 1 tokens are counted after 9223372036854775807 in step 0 (count the tokens of this micro-batch on "
            "this rank)");
}

}  // namespace
}  // namespace reshard
