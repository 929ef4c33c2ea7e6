#pragma once

// What a run was made of: the host's build, the command, and for every plugin that decides in it which file, which bytes,
// which options and which plan. Written once per run, before the first step, so that it is there whatever comes after.

#include <filesystem>
#include <string>
#include <vector>

#include "cli/json.h"
#include "engine/planning.h"
#include "reshard/job.h"

namespace reshard::cli {

// `command`: what was typed, word by word. `planned`: the job's strategy first, then those of its switches.
Json manifest_json(const std::vector<std::string>& command, const Job& job,
                   const std::vector<engine::PlannedStrategy>& planned);

// Writes it to job.plugins.manifest, or, where that is empty, into a file of its own below
// ${XDG_STATE_HOME:-~/.local/state}/reshard/runs. Returns the file's path. Throws Error(io).
std::filesystem::path write_manifest(const Json& manifest, const Job& job);

}  // namespace reshard::cli
