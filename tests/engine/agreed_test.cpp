// What ranks must have in common before step 1: each part that differs is named, by itself and with the others.

#include "engine/agreed.h"

#include <atomic>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/optimizers.h"
#include "engine/planning.h"
#include "reshard/error.h"
#include "tests/engine/toy.h"

namespace reshard {
namespace {

engine::Agreed agreed_of(const Job& job, const Model& model, const engine::PlannedStrategy& planned) {
  return engine::agreed_of(job, model, *engine::choose_optimizer(job, nullptr), planned);
}

TEST(Agreed, RanksWithDifferentPlansAreNamedWithTheirPlans) {
  const Model model = toy::two_units();
  const Job job = toy::job(2, "zero3"), other = toy::job(2, "zero2");
  const auto planned = [&](const Job& of) { return engine::plan_strategy(of, model, engine::chosen_strategy(of), 2); };
  const engine::PlannedStrategy first = planned(job), second = planned(other);
  ASSERT_NE(first.plan.hash(), second.plan.hash());
  ASSERT_NE(first.identity.sha256, second.identity.sha256);
  const engine::Agreed a = agreed_of(job, model, first), b = agreed_of(other, model, second);
  const auto has = [](const engine::Agreed& one) {
    return fmt::format("strategy {}, a plugin file with sha256 {}, options {}, plan {} and job {}", one.strategy,
                       one.sha256, one.options, one.plan, one.job);
  };
  const std::string expected = "rank 1 has " + has(b) + "; rank 0 has " + has(a) +
                               " (give every rank the same job, model and plugin files)";
  std::atomic<int> told{0};
  try {
    launch(job, [&](Rank& rank) {
      try {
        Runtime(rank.first() ? job : other, model, rank);
      } catch (const Error& failure) {
        EXPECT_EQ(failure.code(), ErrorCode::plan);
        EXPECT_EQ(failure.what(), expected);
        ++told;
        throw;
      }
    });
    ADD_FAILURE() << "no error";
  } catch (const Error& failure) {
    EXPECT_EQ(failure.what(), expected);
  }
  EXPECT_EQ(told, 2);
}

// One thing of four is another on rank 2 of 4.
TEST(Agreed, WhatRanksMustHaveInCommonIsNamedByItself) {
  const Model model = toy::two_units();
  const Job job = toy::job(4, "zero3");
  const engine::Agreed one = agreed_of(job, model, engine::plan_strategy(job, model, engine::chosen_strategy(job), 2));
  EXPECT_NO_THROW(engine::check_agreed(std::vector<engine::Agreed>(4, one)));
  const auto told = [&](const auto& change) {
    std::vector<engine::Agreed> all(4, one);
    change(all[2]);
    try {
      engine::check_agreed(all);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  const std::string remedy = " (give every rank the same job, model and plugin files)";
  EXPECT_EQ(told([](engine::Agreed& other) { other.sha256[0] = 'x'; }),
            fmt::format("rank 2 has a plugin file with sha256 x{}; rank 0 has a plugin file with sha256 {}{}",
                        one.sha256 + 1, one.sha256, remedy));
  EXPECT_EQ(told([](engine::Agreed& other) { other.abi[2] = '7'; }),
            "rank 2 has strategy ABI 1.7; rank 0 has strategy ABI 1.0" + remedy);
  EXPECT_EQ(told([](engine::Agreed& other) { other.options[0] = 'x'; }),
            fmt::format("rank 2 has options x{}; rank 0 has options {}{}", one.options + 1, one.options, remedy));
  EXPECT_EQ(told([](engine::Agreed& other) { other.plan[0] = 'x'; }),
            fmt::format("rank 2 has plan x{}; rank 0 has plan {}{}", one.plan + 1, one.plan, remedy));

  Job slower = job;
  slower.optimizer.lr /= 2;
  Job elsewhere = job;
  elsewhere.plugins.path = {"/opt/strategies"};
  Model longer({.name = "root", .parameters = {{"a", {10}}}});
  longer.add({.name = "h.0", .parameters = {{"b", {71}}}});
  const auto planned = engine::plan_strategy(job, model, engine::chosen_strategy(job), 2);
  const engine::Agreed other_job = agreed_of(slower, model, planned);
  const engine::Agreed other_model = agreed_of(job, longer, planned);
  EXPECT_EQ(told([&](engine::Agreed& other) { other = other_job; }),
            fmt::format("rank 2 has job {}; rank 0 has job {}{}", other_job.job, one.job, remedy));
  EXPECT_EQ(told([&](engine::Agreed& other) { other = other_model; }),
            fmt::format("rank 2 has model {}; rank 0 has model {}{}", other_model.model, one.model, remedy));
  EXPECT_EQ(told([&](engine::Agreed& other) { other = agreed_of(elsewhere, model, planned); }), "no error");
}

}  // namespace
}  // namespace reshard
