// [strategy] backward_order in a run: what FSDP2's orders gather in vain after an evaluation is counted, is in the
// predicted peak, and changes no value.

#include <gtest/gtest.h>

#include "tests/engine/toy.h"

namespace reshard {
namespace {

struct Ran {
  toy::Values values;
  Report report;
};

// A root that owns nothing around two embeddings, with small blocks between them.
Ran run(const std::string& order, int microbatches, bool overlap) {
  Model model({.name = "root", .parameters = {}});
  model.add({.name = "wte", .parameters = {{"wte.weight", {4096}}}});
  for (const char* block : {"h.0", "h.1"})
    model.add({.name = block, .parameters = {{std::string(block) + ".weight", {256}}}});
  model.add({.name = "lm_head", .parameters = {{"lm_head.weight", {4096}}}});
  Job job = toy::job(2, "zero3", microbatches, overlap);
  job.strategy.backward_order = order;
  Ran ran;
  launch(job, [&](Rank& rank) {
    Runtime runtime(job, model, rank);
    toy::fill(runtime);
    const auto step = [&] { runtime.step([&](MicroBatch at) { return toy::Pass(runtime, at)(); }); };
    step();
    for (int twice = 0; twice < 2; ++twice) {
      runtime.evaluate([&] { toy::Pass(runtime, {}).forward(0); });
      step();
      step();
    }
    toy::Values values = toy::read_all(runtime);
    if (rank.first()) ran = {std::move(values), runtime.report()};
  });
  return ran;
}

TEST(BackwardOrder, ChangesNoValueAndWhatItGathersInVainIsCountedAndPredicted) {
  for (const bool overlap : {false, true}) {
    SCOPED_TRACE(overlap ? "overlap" : "inline");
    const Ran own = run("micro_batch", 2, overlap);
    EXPECT_EQ(own.report.prefetches_unused, 0);
    EXPECT_EQ(own.report.measured.total(), own.report.predicted.total());
    for (const auto& [order, unused] : {std::pair{"since_backward", 2}, {"since_step", 5 + 2}}) {
      SCOPED_TRACE(order);
      const Ran other = run(order, 2, overlap);
      EXPECT_EQ(other.values, own.values);
      EXPECT_EQ(other.report.prefetches_unused, unused);
      EXPECT_EQ(other.report.measured.total(), other.report.predicted.total());
      EXPECT_GT(other.report.predicted.total(), own.report.predicted.total()) << "both embeddings are whole at once";
    }
  }
}

}  // namespace
}  // namespace reshard
