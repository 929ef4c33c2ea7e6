#include "cli/explain_text.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "cli/plugins.h"
#include "reshard/text.h"

namespace reshard::cli {
namespace {

using base::bytes_text;
using base::count_text;

constexpr int kWholePlan = -1;        // in place of a unit: a value of the plan's own
constexpr std::size_t kRunShown = 8;  // more neighbours than this that are alike take one row together

bool same_row(const engine::PlannedStrategy& planned, std::size_t a, std::size_t b) {
  return planned.plan.units[a].decision == planned.plan.units[b].decision &&
         planned.units[a].whole == planned.units[b].whole && planned.units[a].shard == planned.units[b].shard &&
         planned.units[a].whole > 0 && planned.units[a].dtype == planned.units[b].dtype;
}

std::vector<std::string> unit_row(const engine::PlannedStrategy& planned, std::size_t u, const std::string& label) {
  const UnitPlan& unit = planned.plan.units[u];
  const Decision& decision = unit.decision;
  if (!unit.owns_parameters) return {label, "0 B", "0 B", "-", "-", "-", "-", "-"};
  return {label,
          bytes_text(planned.units[u].whole),
          bytes_text(planned.units[u].shard),
          value_text(decision, Field::after_forward),
          value_text(decision, Field::after_backward),
          value_text(decision, Field::reduce),
          std::to_string(decision.prefetch_forward),
          std::to_string(decision.prefetch_backward)};
}

// Everything that one voice said for the same reason, and about which units.
struct Voice {
  Origin origin;
  std::vector<std::pair<std::string, std::vector<int>>> values;  // "after_forward = free", and for whom
};

std::string value_of(const UnitPlan& unit, Field field) {
  return fmt::format("{} = {}", name(field), value_text(unit.decision, field));
}

Voice& voice_of(std::vector<Voice>& voices, const Origin& origin) {
  for (Voice& voice : voices)
    if (who(voice.origin) == who(origin) && voice.origin.reason == origin.reason &&
        voice.origin.replaced == origin.replaced)
      return voice;
  return voices.emplace_back(Voice{origin, {}});
}

void add_value(Voice& voice, const std::string& value, int unit) {
  for (auto& [text, units] : voice.values)
    if (text == value) {
      units.push_back(unit);
      return;
    }
  voice.values.push_back({value, {unit}});
}

std::vector<Voice> voices_of(const Plan& plan) {
  std::vector<Voice> voices;
  const char* all = plan.shards == plan.ranks ? " (all ranks)" : "";
  add_value(voice_of(voices, plan.shard_over_origin), fmt::format("shard_over = {}{}", plan.shards, all), kWholePlan);
  add_value(voice_of(voices, plan.all_reduce_origin), fmt::format("all_reduce = {}", value_text(plan.all_reduce)),
            kWholePlan);
  if (plan.backward_order_origin.by != Origin::By::core_default)
    add_value(voice_of(voices, plan.backward_order_origin),
              fmt::format("backward_order = {}", value_text(plan.backward_order)), kWholePlan);
  for (std::size_t u = 0; u < plan.units.size(); ++u) {
    if (!plan.units[u].owns_parameters) continue;
    if (plan.units[u].own_dtype)
      add_value(voice_of(voices, plan.units[u].dtype_origin),
                fmt::format("param_dtype = {}", name(plan.units[u].dtype)), static_cast<int>(u));
    for (int f = 0; f < kFields; ++f) {
      const auto field = static_cast<Field>(f);
      add_value(voice_of(voices, plan.units[u].origin(field)), value_of(plan.units[u], field), static_cast<int>(u));
    }
  }
  // The strongest voice first: what a user said is what a user looks for.
  std::stable_sort(voices.begin(), voices.end(),
                   [](const Voice& a, const Voice& b) { return a.origin.by > b.origin.by; });
  return voices;
}

std::string voice_text(const Plan& plan, const Voice& voice, const Style& style) {
  std::string text = "  " + style.strong(who(voice.origin));
  if (!voice.origin.reason.empty()) text += ": " + safe_text(voice.origin.reason);
  text += "\n";
  // Values for the same units share a line.
  std::vector<std::pair<std::vector<int>, std::vector<std::string>>> groups;
  for (const auto& [value, units] : voice.values) {
    auto group =
        std::find_if(groups.begin(), groups.end(), [&units = units](const auto& g) { return g.first == units; });
    if (group == groups.end()) group = groups.insert(groups.end(), {units, {}});
    group->second.push_back(value);
  }
  for (const auto& [units, values] : groups) {
    const std::string whom = units == std::vector<int>{kWholePlan} ? "the plan" : unit_names_text(plan, units);
    text += fmt::format("    {}: {}{}\n", whom, fmt::join(values, ", "),
                        voice.origin.replaced.empty() ? "" : style.dim(" instead of " + voice.origin.replaced));
  }
  return text;
}

}  // namespace

std::string moment_text(const MemoryPeak& peak) {
  return peak.unit.empty() ? peak.moment : fmt::format("unit {}, {}", peak.unit, peak.moment);
}

std::string unit_names_text(const Plan& plan, const std::vector<int>& units) {
  const auto owners =
      std::count_if(plan.units.begin(), plan.units.end(), [](const UnitPlan& u) { return u.owns_parameters; });
  if (units.size() > 1 && std::cmp_equal(units.size(), owners)) return "every unit";
  std::vector<std::string> parts;
  const auto unit_name = [&](std::size_t i) { return plan.units[static_cast<std::size_t>(units[i])].name; };
  for (std::size_t at = 0; at < units.size();) {
    std::size_t end = at + 1;
    while (end < units.size() && units[end] == units[end - 1] + 1) ++end;
    // The root is no neighbour of the blocks that it encloses.
    if (units[at] == 0 && end - at > 1) end = at + 1;
    if (end - at > 2)
      parts.push_back(unit_name(at) + " … " + unit_name(end - 1));
    else
      for (std::size_t i = at; i < end; ++i) parts.push_back(unit_name(i));
    at = end;
  }
  return base::list_text(parts);
}

std::string strategy_text(const engine::PlannedStrategy& planned) {
  return planned.variant.empty() ? planned.name : fmt::format("{}: {}", planned.variant, planned.name);
}

std::string plan_title(const engine::PlannedStrategy& planned, const Job& job, const Style& style) {
  const Plan& plan = planned.plan;
  std::string mesh = fmt::format("{} {}, ", plan.ranks, plan.ranks == 1 ? "rank" : "ranks");
  mesh += plan.replicas() == 1
              ? fmt::format("sharded over {}", plan.shards)
              : fmt::format("{} replicas × {} {}", plan.replicas(), plan.shards, plan.shards == 1 ? "shard" : "shards");
  std::string text = fmt::format("{}: {}\n\n", style.strong(planned.name), safe_text(planned.summary));
  std::vector<std::vector<std::string>> rows{
      {"strategy", fmt::format("{} {}, {}", strategy_text(planned), planned.version, plugin::short_path(planned.file))},
      {"plan", plan_hash_text(planned)},
      {"mesh", mesh},
      {"step", fmt::format("{} sequences in {} {} per rank", count_text(job.train.global_batch), job.train.microbatches,
                           job.train.microbatches == 1 ? "micro-batch" : "micro-batches")}};
  if (job.precision != Job::Precision{}) rows.push_back({"precision", precision_text(job)});
  return text + rows_text(rows, "  ");
}

std::string plan_hash_text(const engine::PlannedStrategy& planned) {
  return planned.plan.hash() +
         (planned.takes_feedback ? ", the first: the strategy is told what steps show, and may decide anew" : "");
}

std::string precision_text(const Job& job) {
  return fmt::format("parameters in {}, gradients added in {}, shards and optimizer in fp32", job.precision.param_dtype,
                     job.precision.reduce_dtype);
}

std::string units_text(const engine::PlannedStrategy& planned, const Style& style) {
  // Where every unit is fp32, the formats are nothing to tell apart.
  const bool formats = std::any_of(planned.units.begin(), planned.units.end(), [](const engine::UnitBytes& unit) {
    return unit.whole > 0 && unit.dtype != Dtype::fp32;
  });
  std::vector<std::string> header{"unit",
                                  "bytes",
                                  formats ? "fp32 shard" : "shard",
                                  "after_forward",
                                  "after_backward",
                                  "reduce",
                                  "prefetch forward",
                                  "backward"};
  if (formats) header.insert(header.begin() + 1, "dtype");
  base::TextTable table(header);
  const std::vector<UnitPlan>& units = planned.plan.units;
  for (std::size_t u = 0; u < units.size();) {
    std::size_t end = u + 1;
    while (u > 0 && end < units.size() && same_row(planned, u, end)) ++end;
    if (end - u <= kRunShown) end = u + 1;
    const std::string label =
        end - u == 1 ? units[u].name
                     : fmt::format("{} … {} ({} units, each)", units[u].name, units[end - 1].name, end - u);
    std::vector<std::string> row = unit_row(planned, u, label);
    if (formats) row.insert(row.begin() + 1, units[u].owns_parameters ? name(planned.units[u].dtype) : "-");
    table.add(std::move(row));
    u = end;
  }
  return style.table(table, "  ");
}

std::string deciders_text(const Plan& plan, const Style& style) {
  std::string text = style.strong("who decided") + "\n";
  for (const Voice& voice : voices_of(plan)) text += voice_text(plan, voice, style);
  return text;
}

std::string step_traffic_text(const engine::PlannedStrategy& planned, const Style& style) {
  base::TextTable table({"per rank and step", "count", "bytes received"});
  const auto add = [&](const char* op, const Traffic& traffic) {
    if (traffic.count > 0)
      table.add({op, count_text(traffic.count), traffic.bytes == 0 ? "0 B" : bytes_text(traffic.bytes)});
  };
  const TrafficByOp& traffic = planned.traffic;
  add("gather", traffic.gather);
  add("shrink", traffic.shrink);
  add("reduce", traffic.reduce);
  add("all-reduce", traffic.all_reduce);
  const Traffic all = traffic.of_steps();
  table.add({"all", count_text(all.count), bytes_text(all.bytes)});
  return style.table(table, "  ");
}

std::string predicted_peak_text(const engine::PlannedStrategy& planned, const Style& style) {
  base::TextTable table({"predicted peak per rank", bytes_text(planned.peak.total())});
  for (int c = 0; c < kMemoryCategories; ++c)
    table.add({name(static_cast<MemoryCategory>(c)), bytes_text(planned.peak.bytes[static_cast<std::size_t>(c)])});
  return style.table(table, "  ") + fmt::format("  at {}\n", moment_text(planned.peak));
}

std::string kept_text(const engine::PlannedStrategy& planned, const Style& style) {
  if (planned.kept.empty()) return "";
  base::TextTable table({"kept unit", "costs at the peak"});
  for (const engine::KeptUnit& kept : planned.kept)
    table.add({planned.plan.units[static_cast<std::size_t>(kept.unit)].name,
               kept.peak_bytes == 0 ? "nothing" : bytes_text(kept.peak_bytes)});
  const std::string more = planned.kept_unpriced > 0
                               ? fmt::format("  the {} largest; smaller ones are not priced\n", engine::kMostPriced)
                               : "";
  return style.table(table, "  ") + more;
}

std::string notes_text(const engine::PlannedStrategy& planned, const Style& style) {
  std::string text;
  for (const std::string& note : planned.plan.notes) text += fmt::format("  note: {}\n", note);
  for (const std::string& line : planned.log) text += fmt::format("  {}\n", style.warn(safe_text(line)));
  return text;
}

std::string budget_text(const Job& job, const engine::PlannedStrategy& planned) {
  if (job.memory.budget == 0) return "";
  const int64_t spare = job.memory.budget - planned.peak.total();
  return fmt::format("  budget {} per rank ({}): {} {}\n", bytes_text(job.memory.budget), job.where("memory.budget"),
                     bytes_text(spare < 0 ? -spare : spare), spare < 0 ? "too little" : "to spare");
}

std::string arms_text(const std::vector<PlannedArm>& arms, const Style& style) {
  // A hash may begin with a digit or not; a header as wide as it stands right over either.
  base::TextTable steps(
      {"per rank and step", "plan    ", "gathers", "reduces", "all-reduces", "bytes received", "peak", "at"});
  std::vector<std::string> header{"predicted peak"};
  for (const PlannedArm& arm : arms) {
    const TrafficByOp& traffic = arm.planned.traffic;
    steps.add({arm.arm.name, arm.planned.plan.hash().substr(0, 8), count_text(traffic.gather.count),
               count_text(traffic.reduce.count), count_text(traffic.all_reduce.count),
               bytes_text(traffic.of_steps().bytes), bytes_text(arm.planned.peak.total()),
               moment_text(arm.planned.peak)});
    header.push_back(arm.arm.name);
  }
  base::TextTable peaks(header);
  for (std::size_t c = 0; c < static_cast<std::size_t>(kMemoryCategories); ++c) {
    std::vector<std::string> row{name(static_cast<MemoryCategory>(c))};
    for (const PlannedArm& arm : arms) row.push_back(bytes_text(arm.planned.peak.bytes[c]));
    peaks.add(std::move(row));
  }
  return style.table(steps, "  ") + "\n" + style.table(peaks, "  ");
}

std::string same_plans_text(const std::vector<PlannedArm>& arms) {
  std::string text;
  for (const PlannedArm& arm : arms)
    if (arm.same_as >= 0)
      text += fmt::format("  {} and {} are the same plan: {}\n", arms[static_cast<std::size_t>(arm.same_as)].arm.name,
                          arm.arm.name, arm.same_because);
  return text;
}

}  // namespace reshard::cli
