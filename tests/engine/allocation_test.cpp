// Property: after the second step no hook allocates from the heap, on any rank, under any strategy, with overlap or
// without. Method: this program's operator new counts; ranks meet at a barrier before and after the hooks of a step.

#include <atomic>
#include <cstdlib>
#include <new>

#include <gtest/gtest.h>

#include "tests/engine/ways.h"

namespace {

std::atomic<int64_t> allocations{0};

}  // namespace

[[gnu::noinline]] void* operator new(std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace reshard {
namespace {

void hooks(Runtime& runtime, int units) {
  runtime.before_forward(kRoot);
  for (int u = 1; u <= units; ++u) {
    runtime.before_forward({u});
    runtime.after_forward({u});
  }
  runtime.after_forward(kRoot);
  runtime.before_backward(kRoot);
  for (int u = units; u >= 1; --u) {
    runtime.before_backward({u});
    runtime.after_backward({u});
  }
  runtime.after_backward(kRoot);
}

TEST(Allocation, NoHookAllocatesAfterTheSecondStep) {
  constexpr int kUnits = 12;
  Model model({.name = "root", .parameters = {{"a", {100}}}});
  for (int u = 0; u < kUnits; ++u)
    model.add({.name = "h." + std::to_string(u), .parameters = {{"w" + std::to_string(u), {300}}}});
  for (const uint64_t turn : {0, 1})
    for (const toy::Way& way : toy::ways({1, 2, 3}, turn)) {
      const Job job = toy::with_budget(toy::job(way), model, 2);
      launch(job, [&](Rank& rank) {
        Runtime runtime(job, model, rank);
        toy::fill(runtime);
        for (int s = 0; s < 5; ++s) {
          runtime.begin_step();
          runtime.begin_micro_batch();
          rank.barrier();
          const int64_t before = allocations.load();
          rank.barrier();
          hooks(runtime, kUnits);
          rank.barrier();
          const int64_t made = allocations.load() - before;
          rank.barrier();
          if (s >= 2) {
            EXPECT_EQ(made, 0) << way.text() << ", step " << s;
          }
          runtime.reduce();
          runtime.update(runtime.gradient_norm());
          runtime.end_step(0);
        }
      });
    }
}

}  // namespace
}  // namespace reshard
