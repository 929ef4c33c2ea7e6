// After the first step of a program whose order does not change, a hook takes nothing from the heap.

#include <cstdlib>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "schedule/declared.h"
#include "tests/schedule/program.h"

namespace {

thread_local int64_t allocations = 0;  // of this test program, by the operator below

}  // namespace

// Not inlined: g++ under ASan would see malloc where the other side is still operator delete, and warn of a mismatch.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace reshard::schedule {
namespace {

TEST(Allocation, AHookTakesNothingFromTheHeapAfterTheFirstStep) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Dice dice(seed);
    const Model model = random_model(dice);
    Step step = random_step(dice, model);
    step.backward_order =
        dice.pick({BackwardOrder::micro_batch, BackwardOrder::since_backward, BackwardOrder::since_step});
    std::vector<std::pair<Hook, int>> calls;
    Scheduler guide(step), scheduler(step);
    declared_step(model, guide, [&](Hook hook, int unit, std::span<const Op>) { calls.emplace_back(hook, unit); });
    guide.on(Hook::begin_evaluation);
    calls.emplace_back(Hook::begin_evaluation,
                       -1);  // several passes in one, as a program that generates text makes them
    for (int pass = 0; pass < 3; ++pass)
      declared_pass(model, guide, false,
                    [&](Hook hook, int unit, std::span<const Op>) { calls.emplace_back(hook, unit); });
    calls.emplace_back(Hook::end_evaluation, -1);
    calls.emplace_back(Hook::before_read, 0);
    calls.emplace_back(Hook::after_read, 0);
    calls.emplace_back(Hook::release, -1);
    for (int round = 0; round < 4; ++round) {
      const int64_t before = allocations;
      for (const auto& [hook, unit] : calls) scheduler.on(hook, unit);
      const int64_t taken = allocations - before;
      EXPECT_TRUE(round == 0 || taken == 0) << taken;
    }
  }
}

TEST(Allocation, TheCounterCounts) {
  const int64_t before = allocations;
  std::vector<int> taken(1000);
  taken[0] = 1;
  EXPECT_EQ(allocations - before, 1) << taken[0];
}

}  // namespace
}  // namespace reshard::schedule
