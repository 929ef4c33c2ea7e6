#include "cli/loaded_job.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "base/math.h"
#include "comm/processes.h"
#include "config/override.h"
#include "engine/optimizers.h"
#include "reshard/error.h"
#include "reshard/text.h"

namespace reshard::cli {
namespace {

std::string job_file(const Request& request) {
  if (!request.line.files.empty()) return request.line.files.front();
  const std::string& fallback = request.face.default_job;
  std::error_code status;
  if (!fallback.empty() && std::filesystem::exists(fallback, status)) return fallback;
  throw Error(
      ErrorCode::config,
      fallback.empty() ? "no job file is given" : fmt::format("no job file is given, and {} is not here", fallback),
      "command line", fmt::format("name one, as in {} train job.toml", request.face.typed));
}

void check_batch(const Job& job) {
  const int64_t parts = int64_t{job.rank_count()} * job.train.microbatches;
  if (job.train.global_batch % parts == 0) return;
  std::string remedy = "use a multiple of " + std::to_string(parts);
  if (job.train.global_batch <= 4096) {
    const auto divisors = base::divisors(static_cast<int>(job.train.global_batch));
    remedy += ", or ranks × micro-batches that make one of " + base::list_text(divisors);
  }
  throw Error(ErrorCode::config,
              fmt::format("train.global_batch = {} does not divide among {} ranks × {} micro-batches = {}",
                          job.train.global_batch, job.rank_count(), job.train.microbatches, parts),
              job.where("train.global_batch"), remedy);
}

// --strategies takes the place of the job's own strategy, so another word of the command line for that is lost.
void check_arms(const Request& request, const Job& job) {
  const auto given = job.places.find("strategy.plugin");
  if (request.line.strategies.empty() || given == job.places.end() || !given->second.command_line) return;
  throw Error(ErrorCode::config,
              fmt::format("{} and --strategies both say what to {}", given->second.where,
                          request.line.command == Command::compare ? "compare" : "explain"),
              "command line", "give one of them");
}

}  // namespace

bool is_another_rank(const Job& job) {
  const std::optional<comm::Launched> launched = comm::launched();
  return job.mesh.communicator != "threads" && launched && launched->rank > 0;
}

LoadedJob load_job(const Request& request, Output& output) {
  LoadedJob loaded;
  request.program.declare(loaded.tables);
  loaded.job = read_job(job_file(request), loaded.tables);
  config::Overrides overrides = request.line.overrides;
  for (const ProgramFlag& flag : request.face.flags)
    if (!flag.key.empty() && !flag.target->empty()) overrides.keys.push_back({flag.name, flag.key, *flag.target});
  if (request.line.processes) overrides.keys.push_back({"--processes", "mesh.communicator", "mpi"});
  config::apply(overrides, loaded.job, loaded.tables);
  if (is_another_rank(loaded.job)) output.silence();
  if (loaded.job.mesh.communicator != "threads" && comm::launched()) output.leave_terminal();
  check_arms(request, loaded.job);
  return loaded;
}

Model load_model(const Request& request, const LoadedJob& loaded) {
  engine::check_mesh(loaded.job);
  if (request.line.command != Command::explain) engine::check_launcher(loaded.job);
  engine::check_names(loaded.job);
  check_batch(loaded.job);
  return request.program.model(loaded.job, loaded.tables);
}

std::unique_ptr<Optimizer> program_optimizer(Program& program, const Job& job) {
  if (job.optimizer.name != "program") return nullptr;
  std::unique_ptr<Optimizer> optimizer = program.optimizer(job);
  if (!optimizer)
    throw Error(ErrorCode::config, fmt::format("{} brings no optimizer of its own", program.name()),
                job.where("optimizer.name"), "use \"adamw\" or \"sgd\"");
  return optimizer;
}

int optimizer_states(const Request& request, const Job& job) {
  const std::unique_ptr<Optimizer> own = program_optimizer(request.program, job);
  return own ? engine::checked_states(*own) : engine::optimizer_states(job);
}

}  // namespace reshard::cli
