#include "cli/run_record.h"

#include <algorithm>

#include <sys/resource.h>

namespace reshard::cli {
namespace {

Json step_json(const StepResult& step) {
  return {{"step", step.step},
          {"loss", step.loss},
          {"loss_hex", hex_text(step.loss)},
          {"gradient_norm", step.gradient_norm},
          {"gradient_norm_hex", hex_text(step.gradient_norm)},
          {"lr", step.lr},
          {"skipped", step.skipped},
          {"seconds", step.seconds},
          {"seconds_exposed", step.seconds_exposed}};
}

Json switch_json(const StrategySwitch& change) {
  return {{"steps_done", change.steps_done},
          {"where", change.where},
          {"strategy", change.result.strategy},
          {"plan_hash", change.result.plan_hash},
          {"same_plan", change.result.same_plan},
          {"relaid", change.result.relaid},
          {"bytes_relaid", change.result.bytes_relaid},
          {"peak_bytes", change.result.peak_bytes},
          {"seconds", change.result.seconds}};
}

Json replan_json(const Replan& replan) {
  return {{"steps_done", replan.steps_done}, {"plan_hash", replan.plan_hash},
          {"changes", replan.changes},       {"units_kept_before", replan.units_kept_before},
          {"units_kept", replan.units_kept}, {"adds_alike", replan.adds_alike},
          {"relaid", replan.relaid},         {"predicted", to_json(replan.predicted)},
          {"seconds", replan.seconds},       {"log", replan.log}};
}

Json memory_json(const RunRecord& record) {
  Json phases = Json::array();
  for (const Phase& phase : record.phases)
    phases.push_back({{"strategy", phase.strategy},
                      {"plan_hash", phase.plan_hash},
                      {"steps", phase.steps},
                      {"predicted", to_json(phase.predicted)},
                      {"measured", to_json(phase.measured)}});
  Json json{{"phases", std::move(phases)}};
  if (!record.phases.empty()) {  // of the last phase, for readers who do not switch
    json["predicted"] = to_json(record.phases.back().predicted);
    json["measured"] = to_json(record.phases.back().measured);
  }
  if (record.between_steps.total() > 0) json["between_steps"] = to_json(record.between_steps);
  json["peak_resident_bytes"] = record.resident_bytes;
  return json;
}

Json time_json(const RunRecord& record, int64_t samples_per_step, const std::string& sample_unit) {
  const double seconds = step_seconds(record);
  Json json{
      {"seconds", record.seconds}, {"step_seconds", seconds}, {"step_seconds_median", median_step_seconds(record)}};
  if (samples_per_step > 0) {
    json["samples_per_step"] = samples_per_step;
    json["sample_unit"] = sample_unit;
    json["samples_per_second"] =
        seconds > 0 ? static_cast<double>(samples_per_step) * static_cast<double>(record.steps.size()) / seconds : 0;
  }
  return json;
}

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double step_seconds(const RunRecord& record) {
  double sum = 0;
  for (const StepResult& step : record.steps) sum += step.seconds;
  return sum;
}

double median_step_seconds(const RunRecord& record) {
  std::vector<double> seconds;
  for (const StepResult& step : record.steps) seconds.push_back(step.seconds);
  return median(std::move(seconds));
}

int64_t peak_resident_bytes() {
  rusage usage{};
  return getrusage(RUSAGE_SELF, &usage) == 0 ? int64_t{usage.ru_maxrss} * 1024 : 0;
}

Json to_json(const RunRecord& record, int64_t samples_per_step, const std::string& sample_unit) {
  Json json{{"loss_hex_format", kHexFormat}, {"steps", Json::array()}, {"validation", Json::array()}};
  for (const StepResult& step : record.steps) json["steps"].push_back(step_json(step));
  for (const Validation& one : record.validation)
    json["validation"].push_back({{"steps_done", one.steps_done},
                                  {"loss", one.loss},
                                  {"loss_hex", hex_text(one.loss)},
                                  {"seconds", one.seconds}});
  json["switches"] = Json::array();
  for (const StrategySwitch& change : record.switches) json["switches"].push_back(switch_json(change));
  json["replans"] = Json::array();
  for (const Replan& replan : record.replans) json["replans"].push_back(replan_json(replan));
  json["time"] = time_json(record, samples_per_step, sample_unit);
  json["memory"] = memory_json(record);
  if (record.report) {
    json["traffic"] = to_json(record.report->traffic);
    json["traffic_per_step_predicted"] = to_json(record.report->traffic_declared);
    json["report"] = to_json(*record.report);
  }
  json["sample"] = record.sample;
  json["interrupted"] = record.signal != 0;
  if (record.error) json["error"] = to_json(*record.error);
  return json;
}

}  // namespace reshard::cli
