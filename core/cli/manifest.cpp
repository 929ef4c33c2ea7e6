#include "cli/manifest.h"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <system_error>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "plugin/file.h"
#include "reshard/error.h"

namespace reshard::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRemedy = "name a file in [plugins] manifest; /dev/null keeps none";

std::string utc_now(const char* format) {
  return fmt::format(fmt::runtime(std::string("{:") + format + "}"), fmt::gmtime(std::time(nullptr)));
}

Json strategy_json(const engine::PlannedStrategy& planned) {
  const engine::PluginIdentity& identity = planned.identity;
  Json options = Json::object();
  for (const auto& [name, value] : identity.options) options[name] = toml_value(value);
  return {{"name", planned.name},
          {"version", planned.version},
          {"vendor", identity.vendor},
          {"build", identity.build},
          {"file", planned.file},
          {"sha256", identity.sha256},
          {"abi", identity.abi},
          {"required_abi", identity.required_abi},
          {"options", std::move(options)},
          {"plan", planned.plan.hash()}};
}

// What of the surroundings can put other code into the process.
Json environment_json() {
  Json json = Json::object();
  for (const char* name : {"LD_PRELOAD", "LD_AUDIT", "LD_LIBRARY_PATH", "RESHARD_PLUGIN_PATH", "RESHARD_PROBE"})
    if (const char* value = std::getenv(name)) json[name] = value;
  return json;
}

fs::path state_folder() {
  const char* state = std::getenv("XDG_STATE_HOME");
  if (state != nullptr && *state == '/') return fs::path(state) / "reshard" / "runs";
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home != '/')
    throw Error(ErrorCode::io, "there is no place for this run's manifest: neither XDG_STATE_HOME nor HOME is set", {},
                kRemedy);
  return fs::path(home) / ".local" / "state" / "reshard" / "runs";
}

}  // namespace

Json manifest_json(const std::vector<std::string>& command, const Job& job,
                   const std::vector<engine::PlannedStrategy>& planned) {
  Json json{{"reshard", RESHARD_VERSION},
            {"compiler", __VERSION__},
            {"abi", plugin::host_abi()},
            {"time", utc_now("%Y-%m-%dT%H:%M:%SZ")},
            {"command", command},
            {"job", job.file},
            {"ranks", job.rank_count()},
            {"trust", job.plugins.trust},
            {"probe", job.plugins.probe},
            {"environment", environment_json()},
            {"strategies", Json::array()}};
  for (const engine::PlannedStrategy& one : planned) json["strategies"].push_back(strategy_json(one));
  return json;
}

fs::path write_manifest(const Json& manifest, const Job& job) {
  fs::path file = job.plugins.manifest;
  std::error_code error;
  if (file.empty()) {
    const fs::path folder = state_folder();
    fs::create_directories(folder, error);
    file = folder / fmt::format("{}-{}.json", utc_now("%Y%m%dT%H%M%SZ"), getpid());
  }
  std::ofstream out(file);
  out << manifest.dump(2) << '\n';
  if (!out.flush())
    throw Error(ErrorCode::io, "the run's manifest cannot be written", file.string(), kRemedy);
  return file;
}

}  // namespace reshard::cli
