#include "cli/explain.h"

#include <optional>

#include <fmt/format.h>

#include "cli/arms.h"
#include "cli/explain_text.h"
#include "cli/hints.h"
#include "cli/interrupt.h"
#include "cli/replaced.h"
#include "cli/report_file.h"
#include "cli/switches.h"
#include "reshard/error.h"

namespace reshard::cli {
namespace {

std::optional<Error> over_budget(const Job& job, const engine::PlannedStrategy& planned) {
  try {
    engine::check_budget(job, planned);
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

Json budget_json(const Job& job, const std::optional<Error>& over) {
  Json json{{"bytes", job.memory.budget}, {"fits", !over}};
  if (over) json["error"] = to_json(*over);
  return json;
}

void explain_one(const Request& request, const LoadedJob& loaded, const Model& model, Output& output) {
  const Job& job = loaded.job;
  const int states = optimizer_states(request, job);
  const auto planned = engine::plan_strategy(job, model, engine::chosen_strategy(job), states);
  const auto later = plan_switches(job, model, states);
  std::optional<Error> over = over_budget(job, planned);
  Json json{{"program", request.face.name}, {"command", "explain"}, {"plan", to_json(planned)}};
  json["budget"] = budget_json(job, over);
  json["later_plans"] = later_plans_json(job, later);
  for (std::size_t i = 0; i < later.size(); ++i) {
    const std::optional<Error> later_over = over_budget(job, later[i]);
    json["later_plans"][i]["budget"] = budget_json(job, later_over);
    if (!over) over = later_over;
  }
  const std::vector<ReplacedValue> replaced = replaced_values(loaded);
  json["replaced"] = replaced_json(replaced);
  json["job"] = to_json(job, loaded.tables);
  if (!output.silent()) write_json(request.line.json, json);
  const Style& style = output.style();
  const auto section = [&](const std::string& text) {
    if (!text.empty()) output.print(text + "\n");
  };
  section(plan_title(planned, job, style));
  section(units_text(planned, style));
  section(deciders_text(planned.plan, style));
  section(replaced_text(replaced, style));
  section(step_traffic_text(planned, style));
  section(predicted_peak_text(planned, style));
  section(kept_text(planned, style));
  section(notes_text(planned, style) + budget_text(job, planned));
  section(later_plans_text(job, later, style));
  if (over) throw *over;
  output.print(next_line(train_hint(request.face, job, request.line)));
}

void explain_arms(const Request& request, const LoadedJob& loaded, const Model& model, Output& output) {
  const Job& job = loaded.job;
  std::vector<Arm> arms;
  for (const std::string& name : request.line.strategies) arms.push_back(make_arm(job, name));
  const std::vector<PlannedArm> planned = plan_arms(job, model, arms, optimizer_states(request, job));

  Json json{{"program", request.face.name}, {"command", "explain"}, {"arms", Json::array()}};
  std::optional<Error> first_over;
  std::string more;
  for (const PlannedArm& arm : planned) {
    const std::optional<Error> over = over_budget(job, arm.planned);
    Json entry{{"name", arm.arm.name}, {"plan", to_json(arm.planned)}, {"budget", budget_json(job, over)}};
    if (arm.same_as >= 0) {
      entry["same_plan_as"] = planned[static_cast<std::size_t>(arm.same_as)].arm.name;
      entry["same_plan_because"] = arm.same_because;
    }
    json["arms"].push_back(std::move(entry));
    if (job.memory.budget > 0) more += fmt::format("  {}:{}", arm.arm.name, budget_text(job, arm.planned).substr(1));
    more += log_text(arm.arm.name, arm.planned.log, output.style());
    if (over && !first_over) first_over = over;
  }
  more += switches_left_out_text(job);
  json["switches_left_out"] = switches_left_out_json(job);
  const std::vector<ReplacedValue> replaced = replaced_values(loaded);
  json["replaced"] = replaced_json(replaced);
  json["job"] = to_json(job, loaded.tables);
  if (!output.silent()) write_json(request.line.json, json);
  output.print(arms_text(planned, output.style()) + "\n");
  if (const std::string text = same_plans_text(planned) + more; !text.empty()) output.print(text + "\n");
  if (!replaced.empty()) output.print(replaced_text(replaced, output.style()) + "\n");
  if (first_over) throw *first_over;
  output.print(next_line(
      compare_hint(request.face, job, request.line.strategies, repeated_options(request.face, request.line))));
}

}  // namespace

void explain(const Request& request, Output& output) {
  const Interrupt interrupt(request.face.name);
  const LoadedJob loaded = load_job(request, output);
  const Model model = load_model(request, loaded);
  if (request.line.strategies.empty())
    explain_one(request, loaded, model, output);
  else
    explain_arms(request, loaded, model, output);
}

}  // namespace reshard::cli
