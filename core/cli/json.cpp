#include "cli/json.h"

#include <fmt/format.h>

#include "config/job_tables.h"
#include "config/value.h"
#include "reshard/decision.h"

namespace reshard::cli {
namespace {

Json origin_json(const Origin& origin) {
  Json json{{"by", who(origin)}};
  if (!origin.reason.empty()) json["reason"] = origin.reason;
  if (!origin.replaced.empty()) json["replaced"] = origin.replaced;
  return json;
}

// What a decision's value is in JSON: TOML's word, a number where TOML has one.
Json value_json(const Decision& decision, Field field) {
  const std::string text = value_text(decision, field);
  const Json number = Json::parse(text, nullptr, false);
  return number.is_number() ? number : Json(text);
}

Json unit_json(const UnitPlan& unit, const engine::UnitBytes& bytes) {
  Json json{{"name", unit.name}, {"bytes", bytes.whole}, {"shard_bytes", bytes.shard}, {"saved_bytes", bytes.saved}};
  json["dtype"] = name(bytes.dtype);
  json["param_dtype"] = origin_json(unit.dtype_origin);
  json["param_dtype"]["value"] = name(unit.dtype);
  json["owns_parameters"] = unit.owns_parameters;
  for (int f = 0; f < kFields; ++f) {
    const auto field = static_cast<Field>(f);
    Json& value = json[name(field)];
    value = origin_json(unit.origin(field));
    value["value"] = value_json(unit.decision, field);
  }
  return json;
}

void add_table(const Table& table, Json& values, Json& places) {
  Json* at = &values;
  std::size_t begin = 0;
  while (begin <= table.name().size()) {  // "optimizer.schedule" is a table in a table
    const std::size_t dot = std::min(table.name().find('.', begin), table.name().size());
    at = &(*at)[table.name().substr(begin, dot - begin)];
    begin = dot + 1;
  }
  for (const std::string& key : table.keys()) {
    (*at)[key] = toml_value(table.text(key));
    places[table.name() + "." + key] = table.where(key);
  }
}

Json options_json(const OptionValues& options) {
  Json json = Json::object();
  for (const auto& [key, value] : options) json[key] = toml_value(config::toml_text(value));
  return json;
}

Json override_json(const UnitOverride& entry) {
  Json json{{"match", entry.match}};
  if (entry.after_forward) {
    const AfterForward& value = entry.after_forward->value;
    json["after_forward"] = value.kind == AfterForward::Kind::shrink ? Json(value.ranks) : Json(value_text(value));
  }
  if (entry.after_backward) json["after_backward"] = value_text(entry.after_backward->value);
  if (entry.reduce) json["reduce"] = value_text(entry.reduce->value);
  if (entry.prefetch_forward) json["prefetch_forward"] = entry.prefetch_forward->value;
  if (entry.prefetch_backward) json["prefetch_backward"] = entry.prefetch_backward->value;
  if (entry.param_dtype) json["param_dtype"] = name(entry.param_dtype->value);
  return json;
}

// What [strategy] has beside its plain keys, under the keys of the job file.
void add_lists(const Job::Strategy& strategy, Json& values) {
  values["options"] = Json::object();
  for (const auto& [name, options] : strategy.options) values["options"][name] = options_json(options);
  for (const char* list : {"unit", "variant", "switch"}) values[list] = Json::array();
  for (const UnitOverride& entry : strategy.units) values["unit"].push_back(override_json(entry));
  for (const Job::Variant& variant : strategy.variants)
    values["variant"].push_back(
        {{"name", variant.name}, {"plugin", variant.plugin}, {"options", options_json(variant.options)}});
  for (const Job::Switch& change : strategy.switches)
    values["switch"].push_back(
        {{"at_step", change.at_step}, {"plugin", change.plugin}, {"options", options_json(change.options)}});
}

// [[optimizer.group]], under the keys of the job file; a key that an entry leaves out is null.
void add_groups(const std::vector<Job::Group>& groups, Json& values, Json& places) {
  values["group"] = Json::array();
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const Job::Group& group = groups[g];
    const auto json = [](const std::optional<double>& value) { return value ? Json(*value) : Json(); };
    values["group"].push_back(
        {{"match", group.match}, {"lr_scale", json(group.lr_scale)}, {"weight_decay", json(group.weight_decay)}});
    places[fmt::format("optimizer.group.{}", g)] = group.where;
  }
}

}  // namespace

std::string hex_text(double value) {
  return fmt::format("{:a}", value);
}

// What core/config writes of scalars and lists is JSON, too.
Json toml_value(const std::string& text) {
  if (text.empty()) return nullptr;
  Json json = Json::parse(text, nullptr, false);
  return json.is_discarded() ? Json(text) : json;
}

Json to_json(const MemoryPeak& peak) {
  Json json{{"total", peak.total()}, {"unit", peak.unit}, {"moment", peak.moment}};
  for (int c = 0; c < kMemoryCategories; ++c)
    json["by_category"][name(static_cast<MemoryCategory>(c))] = peak.bytes[static_cast<std::size_t>(c)];
  return json;
}

Json to_json(const Traffic& traffic) {
  return {{"count", traffic.count},
          {"bytes", traffic.bytes},
          {"seconds", traffic.seconds},
          {"seconds_exposed", traffic.seconds_exposed}};
}

Json to_json(const TrafficByOp& traffic) {
  return {{"gather", to_json(traffic.gather)},
          {"shrink", to_json(traffic.shrink)},
          {"reduce", to_json(traffic.reduce)},
          {"all_reduce", to_json(traffic.all_reduce)},
          {"relay", to_json(traffic.relay)}};
}

Json to_json(const Report& report) {
  return {{"strategy", report.strategy},
          {"strategy_version", report.strategy_version},
          {"strategy_file", report.strategy_file},
          {"plan_hash", report.plan_hash},
          {"ranks", report.ranks},
          {"shards", report.shards},
          {"steps", report.steps},
          {"steps_skipped", report.steps_skipped},
          {"forward_only_passes", report.forward_only_passes},
          {"prefetches_unused", report.prefetches_unused},
          {"order_deviations", report.order_deviations},
          {"system_bytes", report.system_bytes},
          {"system_allocations", report.system_allocations}};
}

Json to_json(const Error& error) {
  return {
      {"code", name(error.code())}, {"what", error.message()}, {"where", error.where()}, {"remedy", error.remedy()}};
}

Json to_json(const engine::PlannedStrategy& planned) {
  const Plan& plan = planned.plan;
  Json json{
      {"strategy", planned.name}, {"version", planned.version}, {"file", planned.file}, {"summary", planned.summary}};
  if (!planned.variant.empty()) json["variant"] = planned.variant;
  json["hash"] = plan.hash();
  json["ranks"] = plan.ranks;
  json["shards"] = plan.shards;
  json["replicas"] = plan.replicas();
  json["shard_over"] = origin_json(plan.shard_over_origin);
  json["shard_over"]["value"] = plan.shards;
  json["all_reduce"] = origin_json(plan.all_reduce_origin);
  json["all_reduce"]["value"] = value_text(plan.all_reduce);
  json["backward_order"] = origin_json(plan.backward_order_origin);
  json["backward_order"]["value"] = value_text(plan.backward_order);
  json["units"] = Json::array();
  for (std::size_t u = 0; u < plan.units.size(); ++u)
    json["units"].push_back(unit_json(plan.units[u], planned.units[u]));
  json["traffic_per_step"] = to_json(planned.traffic);
  json["predicted_peak"] = to_json(planned.peak);
  json["kept_unpriced"] = planned.kept_unpriced;
  json["kept"] = Json::array();
  for (const engine::KeptUnit& kept : planned.kept)
    json["kept"].push_back(
        {{"unit", plan.units[static_cast<std::size_t>(kept.unit)].name}, {"peak_bytes", kept.peak_bytes}});
  json["notes"] = plan.notes;
  json["takes_feedback"] = planned.takes_feedback;
  json["log"] = planned.log;
  return json;
}

Json to_json(const Job& job, const Tables& program) {
  Job copy = job;  // tables bind to fields that can be written
  Json values = Json::object(), places = Json::object();
  for (const Table& table : config::job_tables(copy)) add_table(table, values, places);
  for (const Table& table : program) add_table(table, values, places);
  add_lists(job.strategy, values["strategy"]);
  add_groups(job.optimizer.groups, values["optimizer"], places);
  values["file"] = job.file;
  values["where"] = std::move(places);
  values["toml"] = print_job(job, program);
  return values;
}

}  // namespace reshard::cli
