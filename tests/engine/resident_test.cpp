// What the process really holds, beside what the ledger says: the pool takes little more from the system than the peak
// of what lives in it, and the process little more than its ranks' pools. In a program of its own: peak RSS never
// falls.

#include <sys/resource.h>

#include <mutex>

#include <gtest/gtest.h>

#include "tests/engine/toy.h"

namespace reshard {
namespace {

constexpr int64_t kMiB = 1 << 20;

int64_t peak_rss() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<int64_t>(usage.ru_maxrss) * 1024;
}

TEST(Resident, PeakRssIsTheRanksPoolsAndAFewMore) {
  Model model({.name = "root", .parameters = {{"a", {1 << 20}}}});
  for (int b = 0; b < 6; ++b)
    model.add({.name = "h." + std::to_string(b), .parameters = {{"w" + std::to_string(b), {1 << 20}}}});
  const int64_t before = peak_rss();
  std::mutex mutex;
  int64_t pools = 0, measured = 0;
  const Job job = toy::job(2, "zero3", 2);
  launch(job, [&](Rank& rank) {
    Runtime runtime(job, model, rank);
    toy::fill(runtime);
    for (int s = 0; s < 3; ++s) runtime.step([&](MicroBatch at) { return toy::Pass(runtime, at)(); });
    const Report report = runtime.report();
    EXPECT_EQ(report.measured.total(), report.predicted.total());
    const std::lock_guard lock(mutex);
    pools += report.system_bytes;
    measured += report.measured.total();
  });
  EXPECT_GE(pools, measured);
  EXPECT_LE(pools, measured * 5 / 4 + 8 * kMiB) << "the pool's own gaps";
  const int64_t grown = peak_rss() - before;
  EXPECT_GE(grown, measured) << "what the ledger counts is really there";
  EXPECT_LE(grown, pools + 24 * kMiB) << "threads, tables and libraries";
}

}  // namespace
}  // namespace reshard
