#include "cli/train.h"

#include <exception>

#include <fmt/format.h>

#include "cli/hints.h"
#include "cli/interrupt.h"
#include "cli/manifest.h"
#include "cli/progress.h"
#include "cli/rank_run.h"
#include "cli/report_file.h"
#include "cli/run_record.h"
#include "cli/switches.h"
#include "cli/train_text.h"
#include "reshard/error.h"

namespace reshard::cli {
namespace {

// Runs all ranks; the exception that ended them, if one did.
std::exception_ptr run_ranks(const Request& request, const Job& job, const Model& model, const Interrupt& interrupt,
                             Progress& progress, RunRecord& record) {
  std::exception_ptr failure;
  try {
    launch(job, [&](Rank& rank) {
      const RankRun::Setup setup{job, model, request.program, interrupt, record, progress};
      RankRun(setup, rank).run();
    });
  } catch (const Error& error) {
    record.error = error;
    failure = std::current_exception();
  } catch (const std::exception& error) {
    record.error = Error(ErrorCode::rank_failed, error.what());
    failure = std::current_exception();
  } catch (...) {
    record.error = Error(ErrorCode::rank_failed, "an exception of an unknown type");
    failure = std::current_exception();
  }
  progress.finish();
  record.signal = interrupt.signal();
  record.resident_bytes = peak_resident_bytes();
  return failure;
}

void print_results(const RunRecord& record, const Request& request, const Job& job, int64_t samples, Output& output) {
  if (record.steps.empty() && record.error) return;
  const Style& style = output.style();
  output.print("\n" + summary_text(record, samples, request.program.sample_unit(), style) + "\n");
  if (record.report) output.print(traffic_text(*record.report, style) + "\n");
  if (!record.phases.empty()) output.print(memory_text(record, style) + "\n");
  if (!record.sample.empty()) output.print(sample_text(record.sample, style) + "\n");
  if (!record.error && output.text_file() != nullptr)
    output.print(next_line(compare_hint(request.face, job, {}, repeated_options(request.face, request.line))));
}

// A run that has failed ends with its own error, whatever becomes of its file.
void write_run(const std::string& file, const Json& json, const std::exception_ptr& failure, Output& output) {
  try {
    write_json(file, json);
  } catch (const std::exception& error) {
    if (!failure) throw;
    output.print(output.style().bad(error.what()) + "\n");
  }
}

}  // namespace

int train(const Request& request, Output& output) {
  const Interrupt interrupt(request.face.name);
  const LoadedJob loaded = load_job(request, output);
  const Job& job = loaded.job;
  const Model model = load_model(request, loaded);
  const int states = optimizer_states(request, job);
  const auto planned = engine::plan_strategy(job, model, engine::chosen_strategy(job), states);
  const auto later = plan_switches(job, model, states);
  // Every plan that the run will have is accepted, or refused, before the first step.
  engine::check_budget(job, planned);
  for (const auto& plan : later) engine::check_budget(job, plan);
  request.program.open(job);
  std::vector<engine::PlannedStrategy> all{planned};
  all.insert(all.end(), later.begin(), later.end());
  const Json manifest = manifest_json(request.line.typed, job, all);
  const std::filesystem::path manifest_file = output.silent() ? std::filesystem::path() : write_manifest(manifest, job);

  const int64_t samples = request.program.samples_per_step(job);
  const Style& style = output.style();
  output.print(fmt::format("{}: {}\n\n{}\n", style.strong(request.face.name), request.program.summary(),
                           start_text(job, request.program.facts(), planned, later, manifest_file.string(), style)));
  Progress progress(output, {job.train.steps, samples, samples > 0 ? request.program.sample_unit() : ""});
  RunRecord record;
  const std::exception_ptr failure = run_ranks(request, job, model, interrupt, progress, record);

  Json json{{"program", request.face.name}, {"command", "train"}};
  json.update(to_json(record, samples, request.program.sample_unit()));
  json["plan"] = to_json(planned);
  json["later_plans"] = later_plans_json(job, later);
  json["facts"] = Json::object();
  for (const auto& [what, value] : request.program.facts()) json["facts"][what] = value;
  json["manifest"] = manifest;
  json["manifest_file"] = manifest_file.string();
  json["job"] = to_json(job, loaded.tables);
  print_results(record, request, job, samples, output);
  if (!output.silent()) write_run(request.line.json, json, failure, output);
  if (failure) std::rethrow_exception(failure);
  return record.signal != 0 ? exit_code(ErrorCode::interrupted) : 0;
}

}  // namespace reshard::cli
