// What delays may change: nothing. And how many communicators a model of many units takes.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "tests/engine/watched_communicator.h"
#include "tests/engine/ways.h"

namespace reshard {
namespace {

// Sleeps now and then, by a sequence of its own: any thread.
class Delays {
 public:
  explicit Delays(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15U + 1) {}
  void operator()() {
    uint64_t x = state_.fetch_add(0x9E3779B97F4A7C15U);
    x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
    x ^= x >> 27U;
    if (x % 7 == 0) std::this_thread::sleep_for(std::chrono::microseconds(x / 7 % 400));
  }

 private:
  std::atomic<uint64_t> state_;
};

struct Late {
  bool hooks = false, collectives = false;
};

// Micro-batches of a step, an evaluation, a read and a whole(); bf16 beside fp32.
toy::Values train(const Job& job, const Late& late, uint64_t seed) {
  toy::Values values;
  launch(job, [&](Rank& rank) {
    Delays delays(seed * 16 + static_cast<uint64_t>(rank.index()));
    toy::WatchedCommunicator communicator(rank.communicator(), [&] {
      if (late.collectives) delays();
    });
    Rank delayed(communicator);
    Runtime runtime(job, toy::tree(true), delayed);
    toy::fill(runtime);
    const auto place = [&] {
      if (late.hooks) delays();
    };
    for (int s = 0; s < 2; ++s) {
      toy::step(runtime, s, place);
      runtime.evaluate([&] { toy::Pass(runtime, {}, place).forward(0); });
      runtime.whole({2}, [&](const Values& inside) {
        for (float& value : inside.parameter(0)) value *= 0.5F;
      });
    }
    toy::Values mine = toy::read_all(runtime);
    if (rank.first()) values = std::move(mine);
  });
  return values;
}

TEST(Timing, DelaysInHooksAndOnTheCommunicationStreamChangeNoBit) {
  toy::for_each_way({2, 3, 4}, [](const toy::Way& way) {
    Job job = toy::job(way, 1 + way.ranks % 2);
    UnitOverride ahead;
    ahead.match = "*";
    ahead.prefetch_forward = Given<int>{2, "test", {}};
    ahead.prefetch_backward = Given<int>{2, "test", {}};
    job.strategy.units.push_back(ahead);
    job = toy::with_budget(job, toy::tree(true), engine::optimizer_states(job));
    const toy::Values expected = train(job, {}, 0);
    uint64_t seed = static_cast<uint64_t>(way.ranks);
    for (const Late& late : {Late{true, false}, Late{false, true}})
      EXPECT_EQ(train(job, late, ++seed), expected) << way.text();
  });
}

// Copies over k ranks of 64 units: the groups are those of distinct sets of ranks.
TEST(Timing, CommunicatorsAreMadeOncePerDistinctSetOfRanks) {
  Model model({.name = "root"});
  for (int u = 0; u < 64; ++u)
    model.add({.name = "h." + std::to_string(u), .parameters = {{"w" + std::to_string(u), {64}}}});
  Job job = toy::job(4, "zero3");
  UnitOverride shrunk;
  shrunk.match = "*";
  shrunk.after_forward = Given<AfterForward>{AfterForward::shrink(2), "test", {}};
  job.strategy.units.push_back(shrunk);
  launch(job, [&](Rank& rank) {
    toy::WatchedCommunicator communicator(rank.communicator(), [] {});
    Rank watched(communicator);
    Runtime runtime(job, model, watched);
    toy::fill(runtime);
    for (int s = 0; s < 2; ++s) toy::step(runtime, s);
    EXPECT_EQ(communicator.groups(), 3);  // all ranks, this one alone (replicas), the two of a partial copy
  });
}

}  // namespace
}  // namespace reshard
