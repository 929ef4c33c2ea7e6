#include "cli/train_text.h"

#include <algorithm>
#include <csignal>

#include <fmt/format.h>

#include "cli/explain_text.h"
#include "cli/plugins.h"
#include "cli/switches.h"
#include "comm/processes.h"
#include "reshard/text.h"

namespace reshard::cli {
namespace {

constexpr std::size_t kShownChanges = 4;  // of a new plan

using base::bytes_text;
using base::count_text;
using base::seconds_text;

std::string mesh_text(const Job& job, const Plan& plan) {
  const auto launched = comm::launched();
  const std::string as = job.mesh.communicator == "threads" ? "threads"
                         : launched ? fmt::format("processes of {} ({})", launched->by, job.mesh.communicator)
                                    : fmt::format("processes ({})", job.mesh.communicator);
  std::string text =
      fmt::format("{} {}, {} on {}", plan.ranks, plan.ranks == 1 ? "rank" : "ranks", as, job.mesh.device);
  if (plan.replicas() > 1)
    text += fmt::format(", {} replicas × {} {}", plan.replicas(), plan.shards, plan.shards == 1 ? "shard" : "shards");
  if (job.mesh.overlap) text += ", overlapping";
  return text;
}

std::string step_text(const Job& job, const Plan& plan) {
  const int64_t each = job.train.global_batch / (int64_t{plan.ranks} * job.train.microbatches);
  return fmt::format("{} sequences = {} {} × {} {} × {}", count_text(job.train.global_batch), plan.ranks,
                     plan.ranks == 1 ? "rank" : "ranks", job.train.microbatches,
                     job.train.microbatches == 1 ? "micro-batch" : "micro-batches", each);
}

std::string signal_name(int signal) {
  return signal == SIGTERM ? "SIGTERM" : "SIGINT";
}

// "", or "zero3 " in front of what is said of one of several plans; of one strategy's second "adaptive from step 6 ".
std::vector<std::string> phase_names(const std::vector<Phase>& phases) {
  std::vector<std::string> names;
  int64_t first = 0;
  for (std::size_t i = 0; i < phases.size(); ++i) {
    const bool again = i > 0 && phases[i - 1].strategy == phases[i].strategy;
    names.push_back(phases.size() == 1 ? ""
                                       : phases[i].strategy + (again ? fmt::format(" from step {} ", first) : " "));
    first += phases[i].steps;
  }
  return names;
}

}  // namespace

std::string start_text(const Job& job, const Facts& facts, const engine::PlannedStrategy& planned,
                       const std::vector<engine::PlannedStrategy>& later, const std::string& manifest,
                       const Style& style) {
  std::vector<std::vector<std::string>> rows;
  rows.push_back(
      {"strategy", fmt::format("{} {} ({})", strategy_text(planned), planned.version, job.where("strategy.plugin"))});
  rows.push_back({"plugin", plugin::short_path(planned.file)});
  rows.push_back({"plan", plan_hash_text(planned)});
  rows.push_back({"mesh", mesh_text(job, planned.plan)});
  rows.push_back({"step", step_text(job, planned.plan)});
  if (job.precision != Job::Precision{}) rows.push_back({"precision", precision_text(job)});
  for (const auto& [what, value] : facts) rows.push_back({what, value});
  rows.push_back({"predicted peak",
                  fmt::format("{} per rank, at {}", bytes_text(planned.peak.total()), moment_text(planned.peak))});
  for (std::size_t i = 0; i < later.size(); ++i) {
    const Job::Switch& change = job.strategy.switches[i];
    rows.push_back({when_text(change), fmt::format("{} {}, plan {}{}", strategy_text(later[i]), later[i].version,
                                                   later[i].plan.hash(), never_text(change, job))});
  }
  rows.push_back({"manifest", plugin::short_path(manifest)});
  std::string text = rows_text(rows, "  ");
  for (const std::string& line : planned.log) text += fmt::format("  {}\n", style.warn(safe_text(line)));
  for (std::size_t i = 0; i < later.size(); ++i)
    text += log_text(fmt::format("{}: {}", when_text(job.strategy.switches[i]), later[i].name), later[i].log, style);
  return text;
}

std::string switch_text(const StrategySwitch& change) {
  const std::string moved = change.result.relaid
                                ? fmt::format("re-laid, {} received per rank", bytes_text(change.result.bytes_relaid))
                            : change.result.same_plan ? "the same plan, nothing changed"
                                                      : "nothing moved";
  return fmt::format("after {} {}: {} ({}), {}", count_text(change.steps_done),
                     change.steps_done == 1 ? "step" : "steps", change.result.strategy, moved,
                     seconds_text(change.result.seconds));
}

std::string replan_text(const std::string& strategy, const Replan& replan) {
  std::string text = fmt::format(
      "after {} {}: {} decided anew: {} of its units {} changed, {} kept instead of {}, predicted peak {}{}; it took "
      "{}",
      count_text(replan.steps_done), replan.steps_done == 1 ? "step" : "steps", strategy, replan.changes.size(),
      replan.changes.size() == 1 ? "is" : "are", replan.units_kept, replan.units_kept_before,
      bytes_text(replan.predicted.total()), replan.relaid ? ", re-laid" : "", seconds_text(replan.seconds));
  for (std::size_t i = 0; i < std::min(replan.changes.size(), kShownChanges); ++i)
    text += "\n    " + safe_text(replan.changes[i]);
  if (replan.changes.size() > kShownChanges)
    text += fmt::format("\n    … {} more; --json has them all", replan.changes.size() - kShownChanges);
  for (const std::string& line : replan.log) text += "\n    " + safe_text(line);
  return text;
}

std::string summary_text(const RunRecord& record, int64_t samples_per_step, const std::string& sample_unit,
                         const Style& style) {
  const std::size_t count = record.steps.size();
  std::string text;
  if (record.signal != 0)
    text += style.warn(fmt::format("stopped by {} after {} {}", signal_name(record.signal),
                                   count_text(static_cast<int64_t>(count)), count == 1 ? "step" : "steps")) +
            "\n";
  if (count == 0) return text + "no step was finished\n";
  const auto skipped = std::count_if(record.steps.begin(), record.steps.end(),
                                     [](const StepResult& step) { return step.skipped; });
  if (skipped > 0)
    text += style.warn(fmt::format("{} {} skipped: the loss or the gradient was not finite", count_text(skipped),
                                   skipped == 1 ? "step was" : "steps were")) +
            "\n";
  const double seconds = step_seconds(record);
  text += fmt::format("{} {} in {}", count_text(static_cast<int64_t>(count)), count == 1 ? "step" : "steps",
                      seconds_text(record.seconds));
  if (samples_per_step > 0 && seconds > 0)
    text += fmt::format(
        ", {} {}/s",
        count_text(static_cast<int64_t>(static_cast<double>(samples_per_step) * static_cast<double>(count) / seconds)),
        sample_unit);
  text += fmt::format(", {} per step (median)\n", seconds_text(median_step_seconds(record)));
  text += fmt::format("loss {:.5f} → {:.5f}", record.steps.front().loss, record.steps.back().loss);
  if (!record.validation.empty()) text += fmt::format(", validation {:.5f}", record.validation.back().loss);
  if (record.validation_missing)
    text += "; no validation: train.evaluate_every is set, and the program has no validation data";
  return text + "\n";
}

std::string traffic_text(const Report& report, const Style& style) {
  base::TextTable table({"traffic, first rank", "count", "bytes received", "time", "exposed"});
  const auto add = [&](const char* op, const Traffic& traffic) {
    if (traffic.count == 0) return;
    table.add({op, count_text(traffic.count), bytes_text(traffic.bytes), seconds_text(traffic.seconds),
               seconds_text(traffic.seconds_exposed)});
  };
  const TrafficByOp& traffic = report.traffic;
  add("gather", traffic.gather);
  add("shrink", traffic.shrink);
  add("reduce", traffic.reduce);
  add("all-reduce", traffic.all_reduce);
  add("re-lay", traffic.relay);
  Traffic all = traffic.of_steps();
  all += traffic.relay;
  table.add({"all", count_text(all.count), bytes_text(all.bytes), seconds_text(all.seconds),
             seconds_text(all.seconds_exposed)});
  std::string text = style.table(table);
  if (report.prefetches_unused > 0)
    text += fmt::format("{} gathers were made ahead and dropped\n", count_text(report.prefetches_unused));
  if (report.order_deviations > 0)
    text += fmt::format("{} steps ran their units in another order than the model declares\n",
                        count_text(report.order_deviations));
  return text;
}

std::string memory_text(const RunRecord& record, const Style& style) {
  std::vector<std::string> header{"peak of the fullest rank"};
  const std::vector<std::string> names = phase_names(record.phases);
  for (const std::string& name : names) {
    header.push_back(name + "predicted");
    header.push_back("measured");
  }
  base::TextTable table(header);
  const auto add = [&](const std::string& label, const auto& value) {
    std::vector<std::string> row{label};
    for (const Phase& phase : record.phases) {
      row.push_back(value(phase.predicted));
      row.push_back(phase.steps == 0 ? "-" : value(phase.measured));
    }
    table.add(std::move(row));
  };
  for (std::size_t c = 0; c < static_cast<std::size_t>(kMemoryCategories); ++c)
    add(name(static_cast<MemoryCategory>(c)), [c](const MemoryPeak& peak) { return bytes_text(peak.bytes[c]); });
  add("all", [](const MemoryPeak& peak) { return bytes_text(peak.total()); });
  std::string text = style.table(table);
  for (std::size_t i = 0; i < record.phases.size(); ++i) {
    const Phase& phase = record.phases[i];
    if (phase.steps == 0) continue;
    const std::string& of = names[i];
    const std::string measured = moment_text(phase.measured), predicted = moment_text(phase.predicted);
    text += measured == predicted ? fmt::format("{}at {}\n", of, measured)
                                  : fmt::format("{}predicted at {}; measured at {}\n", of, predicted, measured);
  }
  int64_t steps = 0;
  for (const Phase& phase : record.phases) steps = std::max(steps, phase.measured.total());
  if (record.between_steps.total() > steps)
    text += fmt::format("between steps (validation, samples, switches): {} at {}\n",
                        bytes_text(record.between_steps.total()), moment_text(record.between_steps));
  if (record.report)
    text += fmt::format("peak RSS of the process: {}; {} {}\n", bytes_text(record.resident_bytes), record.report->ranks,
                        record.report->ranks == 1 ? "rank" : "ranks");
  return text;
}

std::string sample_text(const std::string& sample, const Style& style) {
  if (sample.empty()) return "";
  return style.dim("sample") + "\n" + indented(safe_text(sample), "  ");
}

}  // namespace reshard::cli
