#include "cli/compare_command.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "cli/arms.h"
#include "cli/compare_text.h"
#include "cli/hints.h"
#include "cli/interrupt.h"
#include "cli/manifest.h"
#include "cli/progress.h"
#include "cli/report_file.h"
#include "cli/switches.h"
#include "plugin/catalog.h"
#include "reshard/compare.h"
#include "reshard/error.h"
#include "reshard/text.h"

namespace reshard::cli {
namespace {

std::vector<Arm> arms_of(const Request& request, const Job& job) {
  if (request.line.strategies.size() < 2) {
    const std::string hint =
        compare_hint(request.face, job, request.line.strategies, repeated_options(request.face, request.line));
    throw Error(ErrorCode::config,
                request.line.strategies.empty() ? "no strategies are given to compare"
                                                : "only one strategy is given to compare",
                "command line", hint.empty() ? "name two or more, as in --strategies A,B" : "as in: " + hint);
  }
  std::vector<Arm> arms;
  for (const std::string& name : request.line.strategies) arms.push_back(make_arm(job, name));
  return arms;
}

// --steps N is what the run with turns may take; the turns divide it.
int blocks_of(const Request& request, std::size_t arms, int block_steps) {
  const CommandLine& line = request.line;
  const CompareOptions defaults;
  if (!line.overrides.steps) return line.blocks.value_or(defaults.blocks);
  if (line.blocks)
    throw Error(ErrorCode::config, "--steps and --blocks both say how long the run is", "command line",
                "give one of them");
  const int64_t round = static_cast<int64_t>(arms) * block_steps;
  if (*line.overrides.steps < round)
    throw Error(ErrorCode::config,
                fmt::format("--steps = {} is less than one round: {} strategies × {} steps = {}", *line.overrides.steps,
                            arms, block_steps, round),
                "command line", "give more steps, or a smaller --block-steps");
  return static_cast<int>(std::min<int64_t>(*line.overrides.steps / round, 1'000'000));
}

// One rank's training by a Trainer, as compare() wants it.
Training training_of(Program& program, const Job& job, const Interrupt& interrupt) {
  return [&program, &job, &interrupt](Runtime& runtime) {
    const std::shared_ptr<Trainer> trainer = program.trainer(job, runtime);
    trainer->fill(runtime);
    runtime.rank().barrier();
    interrupt.steps_begin();
    return [trainer, &runtime](MicroBatch at) { return trainer->micro_batch(runtime, at); };
  };
}

std::string title_text(const CompareOptions& options, const Job& job, const std::string& manifest, const Style& style) {
  std::vector<std::string> names;
  for (const Arm& arm : options.arms) names.push_back(arm.name);
  const int ranks = job.rank_count();
  return fmt::format(
      "{} in turns on one training state\n\n"
      "  {} {}, {} {}; {} {} of {} steps each, the first of a turn not timed\n"
      "  before that, as many steps of {} alone, for the bits\n{}  manifest {}\n\n",
      style.strong(base::list_text(names)), ranks, ranks == 1 ? "rank" : "ranks", job.train.microbatches,
      job.train.microbatches == 1 ? "micro-batch" : "micro-batches", options.blocks,
      options.blocks == 1 ? "turn" : "turns", options.block_steps, names.front(), switches_left_out_text(job),
      plugin::short_path(manifest));
}

// What decides in the run, once all of it is accepted.
Json manifest_of(const Request& request, const Job& job, const Model& model, const std::vector<Arm>& arms, int states) {
  std::vector<engine::PlannedStrategy> planned;
  for (PlannedArm& arm : plan_arms(job, model, arms, states)) planned.push_back(std::move(arm.planned));
  for (const engine::PlannedStrategy& one : planned) engine::check_budget(job, one);
  return manifest_json(request.line.typed, job, planned);
}

}  // namespace

int compare_command(const Request& request, Output& output) {
  if (request.line.files.size() == 2) {
    compare_files(request, output);
    return 0;
  }
  const LoadedJob loaded = load_job(request, output);
  const Job& job = loaded.job;
  CompareOptions options;
  options.arms = arms_of(request, job);
  options.block_steps = request.line.block_steps.value_or(options.block_steps);
  options.blocks = blocks_of(request, options.arms.size(), options.block_steps);
  const Model model = load_model(request, loaded);
  const int states = optimizer_states(request, job);
  if (job.optimizer.name == "program") options.optimizer = [&] { return program_optimizer(request.program, job); };

  const Json manifest = manifest_of(request, job, model, options.arms, states);
  request.program.open(job);
  const std::string manifest_file = output.silent() ? "" : write_manifest(manifest, job).string();

  LiveLine live(output.text_file(), output.terminal());
  // The title waits for the first step: what is wrong with the arms is said before it.
  options.progress = [&, titled = false](int64_t done, int64_t total) mutable {
    if (!std::exchange(titled, true)) output.print(title_text(options, job, manifest_file, output.style()));
    live.show(fmt::format("  {} of {} steps done", base::count_text(done), base::count_text(total)));
  };
  Comparison comparison;
  {
    const Interrupt interrupt(request.face.name);
    options.stop = [&] { return interrupt.came(); };
    comparison = compare(job, model, options, training_of(request.program, job, interrupt));
  }
  live.clear();
  if (output.silent()) return 0;  // the first rank has measured, and says what came of it

  const Samples samples{request.program.samples_per_step(job), request.program.sample_unit()};
  Json json{{"program", request.face.name}, {"command", "compare"}};
  json.update(to_json(comparison, samples));
  json["switches_left_out"] = switches_left_out_json(job);
  json["manifest"] = manifest;
  json["manifest_file"] = manifest_file;
  json["job"] = to_json(job, loaded.tables);
  write_json(request.line.json, json);
  const Style& style = output.style();
  output.print(costs_text(comparison, samples, style) + "\n" + peaks_text(comparison, style) + "\n" +
               bits_text(comparison, style) + "\n");
  for (const std::string& more : {same_plans_text(comparison), warnings_text(comparison, style)})
    if (!more.empty()) output.print(more + "\n");
  if (comparison.stopped()) {
    output.print(style.warn(fmt::format("stopped after {} of {} steps; turns that were not finished are left out",
                                        base::count_text(comparison.steps_done), base::count_text(comparison.steps))) +
                 "\n");
    return exit_code(ErrorCode::interrupted);
  }
  const auto fastest =
      std::min_element(comparison.arms.begin(), comparison.arms.end(),
                       [](const ArmResult& a, const ArmResult& b) { return a.median_seconds < b.median_seconds; });
  const auto which = static_cast<std::size_t>(fastest - comparison.arms.begin());
  output.print(next_line(
      explain_hint(request.face, job, request.line.strategies[which], repeated_options(request.face, request.line))));
  return 0;
}

}  // namespace reshard::cli
