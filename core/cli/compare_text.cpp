#include "cli/compare_text.h"

#include <cmath>

#include <fmt/format.h>

#include "cli/explain_text.h"
#include "cli/switches.h"
#include "reshard/text.h"

namespace reshard::cli {
namespace {

using base::bytes_text;
using base::count_text;
using base::seconds_text;

double rate(const ArmResult& arm, const Samples& samples) {
  return arm.median_seconds > 0 ? static_cast<double>(samples.per_step) / arm.median_seconds : 0;
}

std::string steps_text(int64_t steps) {
  return fmt::format("{} {}", count_text(steps), steps == 1 ? "step" : "steps");
}

std::string arm_verdict(const ArmResult& arm, const std::string& first, const Style& style) {
  if (arm.blocks == 0) return "no turn was finished";
  const std::string which = arm.differs_since.empty() ? fmt::format("all {}", steps_text(arm.steps_compared))
                                                      : fmt::format("the {} before {}'s first turn",
                                                                    steps_text(arm.steps_compared), arm.differs_since);
  std::string text = arm.identical ? "identical losses in " + which
                                   : fmt::format("losses differ by up to {:.1e} in {}", arm.largest_difference, which);
  if (!arm.promised) return fmt::format("{}; not promised: {}", text, arm.promise);
  if (!arm.identical) return style.bad(fmt::format("{}, against the promise: {}", text, arm.promise));
  return arm.name == first ? text : fmt::format("{}, as promised: {}", text, arm.promise);
}

std::string parameters_verdict(const Comparison& comparison, const Style& style) {
  if (comparison.stopped()) return "not compared: the run was stopped before its end";
  const std::string after = fmt::format("after {}", steps_text(comparison.steps));
  if (comparison.parameters_identical) return "identical " + after;
  const std::string text = fmt::format("differ by up to {:.1e} of the largest value {}, in {}",
                                       comparison.largest_difference, after, comparison.differing_parameter);
  return comparison.parameters_promised ? style.bad(text + ", against the promise") : text + "; not promised";
}

Json arm_json(const ArmResult& arm, const Samples& samples) {
  Json json{{"name", arm.name},
            {"strategy", arm.strategy},
            {"version", arm.version},
            {"file", arm.file},
            {"plan_hash", arm.plan_hash}};
  if (!arm.same_plan_as.empty())
    json["same_plan_as"] = arm.same_plan_as, json["same_plan_because"] = arm.same_plan_because;
  json["log"] = arm.log;
  json["blocks"] = arm.blocks;
  json["replans"] = arm.replans;
  json["seconds"] = arm.seconds;
  json["median_seconds"] = arm.median_seconds;
  json["ratio"] = {{"median", arm.ratio}, {"low", arm.ratio_low}, {"high", arm.ratio_high}};
  if (samples.per_step > 0) json["samples_per_second"] = rate(arm, samples);
  json["seconds_exposed"] = arm.seconds_exposed;
  json["memory"] = {{"predicted", to_json(arm.predicted)}, {"measured", to_json(arm.measured)}};
  json["traffic_per_step"] = to_json(arm.traffic);
  json["bits"] = {{"promised", arm.promised},
                  {"because", arm.promise},
                  {"identical", arm.identical},
                  {"steps_compared", arm.steps_compared},
                  {"largest_difference", arm.largest_difference},
                  {"differs_since", arm.differs_since},
                  {"steps_left_out", arm.steps_after}};
  return json;
}

}  // namespace

std::string ratio_text(double ratio, double low, double high) {
  return fmt::format("{:.3f} ({:.3f} … {:.3f})", ratio, low, high);
}

std::string costs_text(const Comparison& comparison, const Samples& samples, const Style& style) {
  const bool rates = samples.per_step > 0;
  std::vector<std::string> header{"per step", "time", "ratio to the first"};
  if (rates) header.push_back(samples.unit + "/s");
  for (const char* column : {"exposed", "gathers", "reduces", "all-reduces", "bytes received", "peak"})
    header.push_back(column);
  base::TextTable table(header);
  for (std::size_t i = 0; i < comparison.arms.size(); ++i) {
    const ArmResult& arm = comparison.arms[i];
    if (arm.blocks == 0) {  // stopped before its first turn was over
      std::vector<std::string> nothing(header.size(), "-");
      nothing.front() = arm.name;
      table.add(std::move(nothing));
      continue;
    }
    std::vector<std::string> row{arm.name, seconds_text(arm.median_seconds),
                                 i == 0 ? "1" : ratio_text(arm.ratio, arm.ratio_low, arm.ratio_high)};
    if (rates) row.push_back(count_text(std::llround(rate(arm, samples))));
    row.push_back(seconds_text(arm.seconds_exposed));
    row.push_back(count_text(arm.traffic.gather.count));
    row.push_back(count_text(arm.traffic.reduce.count));
    row.push_back(count_text(arm.traffic.all_reduce.count));
    row.push_back(bytes_text(arm.traffic.of_steps().bytes));
    row.push_back(bytes_text(arm.measured.total()));
    table.add(std::move(row));
  }
  return style.table(table);
}

std::string peaks_text(const Comparison& comparison, const Style& style) {
  std::vector<std::string> header{"measured peak of the fullest rank"};
  for (const ArmResult& arm : comparison.arms) header.push_back(arm.name);
  base::TextTable table(header);
  const auto add = [&](const std::string& label, const auto& bytes) {
    std::vector<std::string> row{label};
    for (const ArmResult& arm : comparison.arms) row.push_back(arm.blocks == 0 ? "-" : bytes_text(bytes(arm)));
    table.add(std::move(row));
  };
  for (std::size_t c = 0; c < static_cast<std::size_t>(kMemoryCategories); ++c)
    add(name(static_cast<MemoryCategory>(c)), [c](const ArmResult& arm) { return arm.measured.bytes[c]; });
  add("all", [](const ArmResult& arm) { return arm.measured.total(); });
  add("predicted", [](const ArmResult& arm) { return arm.predicted.total(); });
  return style.table(table);
}

std::string bits_text(const Comparison& comparison, const Style& style) {
  const std::string& first = comparison.arms.front().name;
  std::vector<std::vector<std::string>> rows;
  for (const ArmResult& arm : comparison.arms) rows.push_back({arm.name, arm_verdict(arm, first, style)});
  rows.push_back({"parameters", parameters_verdict(comparison, style)});
  return style.dim(fmt::format("bits, against a run of {} alone", first)) + "\n" + rows_text(rows);
}

std::string same_plans_text(const Comparison& comparison) {
  std::string text;
  for (const ArmResult& arm : comparison.arms)
    if (!arm.same_plan_as.empty())
      text += fmt::format("{} and {} are the same plan: {}\n", arm.same_plan_as, arm.name, arm.same_plan_because);
  for (const ArmResult& arm : comparison.arms)
    if (arm.replans > 0)
      text +=
          fmt::format("{} decided anew {} {} in {} {}; each turn begins with its first plan\n", arm.name, arm.replans,
                      arm.replans == 1 ? "time" : "times", arm.blocks, arm.blocks == 1 ? "turn" : "turns");
  return text;
}

std::string warnings_text(const Comparison& comparison, const Style& style) {
  std::string text;
  for (const ArmResult& arm : comparison.arms) text += log_text(arm.name, arm.log, style);
  return text;
}

Json to_json(const Comparison& comparison, const Samples& samples) {
  Json json{{"ranks", comparison.ranks},       {"microbatches", comparison.microbatches},
            {"blocks", comparison.blocks},     {"block_steps", comparison.block_steps},
            {"steps", comparison.steps},       {"steps_done", comparison.steps_done},
            {"stopped", comparison.stopped()}, {"arms", Json::array()}};
  if (samples.per_step > 0) json["samples_per_step"] = samples.per_step, json["sample_unit"] = samples.unit;
  for (const ArmResult& arm : comparison.arms) json["arms"].push_back(arm_json(arm, samples));
  if (!comparison.stopped())
    json["parameters"] = {{"promised", comparison.parameters_promised},
                          {"identical", comparison.parameters_identical},
                          {"largest_difference", comparison.largest_difference},
                          {"differing_parameter", comparison.differing_parameter}};
  return json;
}

}  // namespace reshard::cli
