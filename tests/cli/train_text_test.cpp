// The printed parts of a training run, exactly.

#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>

#include "cli/progress.h"
#include "cli/train_text.h"
#include "tests/cli/planned.h"

namespace reshard::cli {
namespace {

StepResult step_result(int64_t step, double loss, double seconds) {
  StepResult result;
  result.step = step;
  result.loss = loss;
  result.gradient_norm = 1.5;
  result.lr = 1e-3;
  result.seconds = seconds;
  return result;
}

TEST(TrainText, StartUpTable) {
  const engine::PlannedStrategy planned = planned_strategy(2);
  Job job;
  job.places["strategy.plugin"] = {"job.toml:2:1"};
  job.train.microbatches = 2;
  job.strategy.switches.push_back({100, "south", {}, "job.toml:9:1"});
  job.strategy.switches.push_back({900, "south", {}, "job.toml:12:1"});
  engine::PlannedStrategy later = planned;
  later.name = "south";
  const std::string hash = planned.plan.hash();
  EXPECT_EQ(start_text(job, {{"parameters", "10.8 M"}}, planned, {later, later}, "/state/run.json", Style()),
            "  strategy         north 1.2.0 (job.toml:2:1)\n"
            "  plugin           /opt/north.so\n"
            "  plan             " +
                hash +
                "\n"
                "  mesh             2 ranks, threads on cpu\n"
                "  step             16 sequences = 2 ranks × 2 micro-batches × 4\n"
                "  parameters       10.8 M\n"
                "  predicted peak   5.75 KiB per rank, at unit h.1, before backward, micro-batch 1\n"
                "  after 100 steps  south 1.2.0, plan " +
                hash +
                "\n"
                "  after 900 steps  south 1.2.0, plan " +
                hash + "; never: the run has 200 steps\n"
            "  manifest         /state/run.json\n");
}

TEST(TrainText, RowsStandUnderTheirHeader) {
  EXPECT_EQ(header_text("tokens"), "   step       loss  gradient norm         lr     tokens/s   time left");
  EXPECT_EQ(row_text({1200, 2.5, 2.75, 0.25, 3e-4, 123456, 65}, "tokens"),
            "  1,200    2.50000         0.2500   3.00e-04      123,456   1 min 5 s  validation 2.75000");
  EXPECT_EQ(header_text(""), "   step       loss  gradient norm         lr   time left");
  EXPECT_EQ(row_text({1, 2.5, {}, 0.25, 3e-4, 0, 0}, ""), "      1    2.50000         0.2500   3.00e-04           -");
}

TEST(TrainText, APlainRunShowsAboutTwentyRowsAndItsLast) {
  std::FILE* file = std::tmpfile();
  const Output output(file);
  Progress progress(output, {100, 10, "tokens"});
  progress.note("  switched");
  for (int64_t s = 0; s < 97; ++s) progress.step(step_result(s, 1, 0.1), {});
  progress.finish();
  std::rewind(file);
  std::string text(1 << 14, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  // The note, the header, steps 0, 5, 10 … 95, and 96, where it ended.
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1 + 1 + 20 + 1) << text;
  EXPECT_NE(text.find("\n      0    1.00000 "), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("     96    1.00000         1.5000   1.00e-03          100         1 s\n")) << text;
  EXPECT_EQ(text.find('\r'), std::string::npos);
}

TEST(TrainText, SwitchesSayWhatMoved) {
  StrategySwitch change{100, "job.toml:9:1", {"south", "cafe", false, false, 0, 0, 0.002}};
  EXPECT_EQ(switch_text(change), "after 100 steps: south (nothing moved), 2 ms");
  change.result.same_plan = true;
  EXPECT_EQ(switch_text(change), "after 100 steps: south (the same plan, nothing changed), 2 ms");
  change.result = {"south", "cafe", false, true, 2048, 4096, 0.5};
  change.steps_done = 1;
  EXPECT_EQ(switch_text(change), "after 1 step: south (re-laid, 2 KiB received per rank), 500 ms");
}

TEST(TrainText, Summary) {
  RunRecord record;
  EXPECT_EQ(summary_text(record, 64, "tokens", Style()), "no step was finished\n");
  record.steps = {step_result(0, 4, 0.1), step_result(1, 3, 0.3), step_result(2, 2, 0.1)};
  record.seconds = 0.75;
  EXPECT_EQ(summary_text(record, 1000, "tokens", Style()),
            "3 steps in 750 ms, 6,000 tokens/s, 100 ms per step (median)\n"
            "loss 4.00000 → 2.00000\n");
  record.validation.push_back({3, 2.5, 0.1});
  record.signal = SIGTERM;
  EXPECT_EQ(summary_text(record, 0, "", Style()),
            "stopped by SIGTERM after 3 steps\n"
            "3 steps in 750 ms, 100 ms per step (median)\n"
            "loss 4.00000 → 2.00000, validation 2.50000\n");
  record.validation.clear();
  record.validation_missing = true;
  record.signal = 0;
  EXPECT_EQ(summary_text(record, 0, "", Style()),
            "3 steps in 750 ms, 100 ms per step (median)\n"
            "loss 4.00000 → 2.00000; no validation: train.evaluate_every is set, and the program has no validation "
            "data\n");
}

TEST(TrainText, Traffic) {
  Report report;
  report.traffic.gather = {1200, 3 << 20, 1.5, 0.25};
  report.traffic.relay = {2, 1024, 0.001, 0.001};
  report.prefetches_unused = 3;
  report.order_deviations = 2;
  EXPECT_EQ(traffic_text(report, Style()),
            "traffic, first rank  count  bytes received   time  exposed\n"
            "gather               1,200           3 MiB  1.5 s   250 ms\n"
            "re-lay                   2           1 KiB   1 ms     1 ms\n"
            "all                  1,202           3 MiB  1.5 s   251 ms\n"
            "3 gathers were made ahead and dropped\n"
            "2 steps ran their units in another order than the model declares\n");
}

TEST(TrainText, MemoryPredictedAndMeasuredStandSideBySide) {
  RunRecord record;
  const MemoryPeak peak = planned_strategy(2).peak;
  record.phases.push_back({"north", "cafe", 10, peak, peak});
  record.report = Report{};
  record.report->ranks = 2;
  record.resident_bytes = 3 << 20;
  EXPECT_EQ(memory_text(record, Style()),
            "peak of the fullest rank  predicted  measured\n"
            "sharded parameters            1 KiB     1 KiB\n"
            "whole parameters              2 KiB     2 KiB\n"
            "gradients                     512 B     512 B\n"
            "reduce buffers                  0 B       0 B\n"
            "optimizer state               2 KiB     2 KiB\n"
            "activations                   256 B     256 B\n"
            "all                        5.75 KiB  5.75 KiB\n"
            "at unit h.1, before backward, micro-batch 1\n"
            "peak RSS of the process: 3 MiB; 2 ranks\n");
  record.phases.push_back({"south", "beef", 0, peak, {}});  // ended before its first step
  record.phases[0].measured.unit = "h.0";
  record.between_steps = peak;
  record.between_steps.bytes[5] = 4096;
  const std::string text = memory_text(record, Style());
  EXPECT_EQ(text.substr(0, text.find('\n')),
            "peak of the fullest rank  north predicted  measured  south predicted  measured");
  EXPECT_NE(text.find("\nall                              5.75 KiB  5.75 KiB         5.75 KiB         -\n"),
            std::string::npos)
      << text;
  EXPECT_NE(
      text.find("\nnorth predicted at unit h.1, before backward, micro-batch 1; measured at unit h.0, before backward, "
                "micro-batch 1\n"
                "between steps (validation, samples, switches): 9.5 KiB at unit h.1, before backward, micro-batch 1\n"),
      std::string::npos)
      << text;
}

TEST(TrainText, SamplesAreSafeToPrint) {
  EXPECT_EQ(sample_text("", Style()), "");
  EXPECT_EQ(sample_text("int a;\x1b[2J\n\xff\xc2\x9b\té\xe2\x82\n\n", Style()), "sample\n  int a;·[2J\n  ··\té··\n");
  EXPECT_EQ(safe_text("\xed\xa0\x80\xf4\x90\x80\x80\xc0\xaf"), "·········");  // a surrogate, too high, too long
}

TEST(TrainText, ColourIsOnlyWhatIsMarked) {
  const Style colour{true};
  EXPECT_EQ(colour.bad("no"), "\033[31mno\033[0m");
  EXPECT_EQ(Style().bad("no"), "no");
  base::TextTable table({"a"});
  table.add({"1"});
  EXPECT_EQ(colour.table(table), "\033[2ma\033[0m\n1\n");
}

}  // namespace
}  // namespace reshard::cli
