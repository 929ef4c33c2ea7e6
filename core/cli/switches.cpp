#include "cli/switches.h"

#include <fmt/format.h>

#include "cli/arms.h"
#include "cli/explain_text.h"
#include "reshard/text.h"

namespace reshard::cli {

using base::bytes_text;
using base::count_text;

std::vector<engine::PlannedStrategy> plan_switches(const Job& job, const Model& model, int optimizer_states) {
  std::vector<engine::PlannedStrategy> plans;
  for (const Job::Switch& change : job.strategy.switches)
    plans.push_back(plan_named(fmt::format("{} {}", change.plugin, when_text(change)), job, model,
                               {change.plugin, change.options, change.where}, optimizer_states));
  return plans;
}

std::string when_text(const Job::Switch& change) {
  return fmt::format("after {} {}", count_text(change.at_step), change.at_step == 1 ? "step" : "steps");
}

std::string never_text(const Job::Switch& change, const Job& job) {
  if (change.at_step < job.train.steps) return "";
  return fmt::format("; never: the run has {} {}", count_text(job.train.steps),
                     job.train.steps == 1 ? "step" : "steps");
}

std::string later_plans_text(const Job& job, const std::vector<engine::PlannedStrategy>& later, const Style& style) {
  if (later.empty()) return "";
  // A hash may begin with a digit or not; a header as wide as it stands right over either.
  base::TextTable table({"switches, per rank and step", "plan            ", "gathers", "reduces", "all-reduces",
                         "bytes received", "peak", "at"});
  std::string lines;
  for (std::size_t i = 0; i < later.size(); ++i) {
    const Job::Switch& change = job.strategy.switches[i];
    const engine::PlannedStrategy& plan = later[i];
    const std::string label = fmt::format("{}: {}", when_text(change), plan.variant.empty() ? plan.name : plan.variant);
    table.add({label, plan.plan.hash(), count_text(plan.traffic.gather.count), count_text(plan.traffic.reduce.count),
               count_text(plan.traffic.all_reduce.count), bytes_text(plan.traffic.of_steps().bytes),
               bytes_text(plan.peak.total()), moment_text(plan.peak)});
    if (const std::string never = never_text(change, job); !never.empty())
      lines += fmt::format("  {}{}\n", label, never);
    if (job.memory.budget > 0) lines += fmt::format("  {}:{}", label, budget_text(job, plan).substr(1));
    lines += log_text(label, plan.log, style);
  }
  return style.table(table, "  ") + lines;
}

Json later_plans_json(const Job& job, const std::vector<engine::PlannedStrategy>& later) {
  Json json = Json::array();
  for (std::size_t i = 0; i < later.size(); ++i) {
    const Job::Switch& change = job.strategy.switches[i];
    Json entry{{"at_step", change.at_step}, {"where", change.where}};
    entry.update(to_json(later[i]));
    json.push_back(std::move(entry));
  }
  return json;
}

std::string switches_left_out_text(const Job& job) {
  std::vector<std::string> parts;
  for (const Job::Switch& change : job.strategy.switches)
    parts.push_back(fmt::format("{} to {} ({})", when_text(change), change.plugin, change.where));
  return parts.empty() ? "" : fmt::format("  switches are left out: {}\n", base::list_text(parts));
}

Json switches_left_out_json(const Job& job) {
  Json json = Json::array();
  for (const Job::Switch& change : job.strategy.switches)
    json.push_back({{"at_step", change.at_step}, {"strategy", change.plugin}, {"where", change.where}});
  return json;
}

std::string log_text(const std::string& who, const std::vector<std::string>& log, const Style& style) {
  std::string text;
  for (const std::string& line : log) text += fmt::format("  {}: {}\n", who, style.warn(safe_text(line)));
  return text;
}

}  // namespace reshard::cli
