#include "reshard/job.h"

#include <optional>

#include "comm/processes.h"
#include "config/job_tables.h"
#include "config/read.h"
#include "config/unit_entry.h"
#include "config/write.h"
#include "reshard/error.h"

namespace reshard {

std::string Job::where(std::string_view key) const {
  const auto found = places.find(std::string(key));
  return found == places.end() ? "default" : found->second.where;
}

int Job::rank_count() const {
  if (mesh.ranks > 0) return mesh.ranks;
  const std::optional<comm::Launched> launched = comm::launched();
  return mesh.communicator != "threads" && launched ? launched->size : 1;
}

Job read_job(const std::string& path, Tables& program) {
  Job job;
  config::read(path, job, program);
  return job;
}

Job read_job(const std::string& path) {
  Tables none;
  return read_job(path, none);
}

std::string print_job(const Job& job, const Tables& program) {
  return config::write(job, program);
}

void check(const Job& job) {
  Job copy = job;  // tables bind to fields that can be written
  for (const Table& table : config::job_tables(copy)) table.check();
  for (const UnitOverride& entry : job.strategy.units) config::check_unit(entry);
  for (Job::Variant& variant : copy.strategy.variants) config::variant_table(variant).check();
  for (Job::Switch& change : copy.strategy.switches) config::switch_table(change).check();
  for (Job::Group& group : copy.optimizer.groups) config::group_table(group).check();
  for (Job::Pin& pin : copy.plugins.pins) config::pin_table(pin).check();
  config::check_lists(job);
}

void require_plugin(const Job& job) {
  if (!job.strategy.plugin.empty()) return;
  throw Error(ErrorCode::config, "no strategy is given", job.file,
              "write plugin = \"NAME\" in [strategy], or give --strategy NAME");
}

}  // namespace reshard
