#include "comm/processes.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "reshard/text.h"

// Defined by programs that are built with find_package(reshard): the modules of the package that they were built with.
extern "C" __attribute__((weak)) const char reshard_package_modules[];

namespace reshard::comm {
namespace {

namespace fs = std::filesystem;

// Beside the program (a build folder, an installed prefix), then where this build was told. RESHARD_MODULES goes first.
std::vector<std::string> places(const std::string& file) {
  std::vector<std::string> all;
  if (const char* folder = std::getenv("RESHARD_MODULES"); folder != nullptr && *folder != '\0')
    return {(fs::path(folder) / file).string()};
  std::error_code error;
  const fs::path bin = fs::read_symlink("/proc/self/exe", error).parent_path();
  if (!error) {
    all.push_back((bin.parent_path() / "modules" / file).string());
    all.push_back((bin / RESHARD_MODULES_FROM_BIN / file).lexically_normal().string());
  }
  if (reshard_package_modules != nullptr) all.push_back(std::string(reshard_package_modules) + "/" + file);
  all.push_back(std::string(RESHARD_BUILT_MODULES) + "/" + file);
  all.push_back(std::string(RESHARD_INSTALLED_MODULES) + "/" + file);
  std::vector<std::string> once;
  for (const std::string& place : all)
    if (std::find(once.begin(), once.end(), place) == once.end()) once.push_back(place);
  return once;
}

StartProcesses load(const std::string& name, const std::string& where) {
  const std::string file = "reshard-" + name + ".so";
  const auto refuse = [&](const std::string& what, const std::string& remedy) {
    throw Error(ErrorCode::config, fmt::format("mesh.communicator = \"{}\" {}", name, what), where, remedy);
  };
  const std::vector<std::string> tried = places(file);
  for (const std::string& place : tried) {
    std::error_code error;
    if (!fs::exists(place, error)) continue;
    // Its own copies of our code stay its own; nothing is taken out of memory again.
    void* library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library == nullptr)
      refuse(fmt::format("cannot be loaded: {}", dlerror()),
             "install Open MPI's libraries (apt-get install openmpi-bin)");
    void* start = dlsym(library, "reshard_processes_v1");
    if (start == nullptr)
      refuse(fmt::format("is no module: {} has no reshard_processes_v1", place), "install Reshard again");
    return reinterpret_cast<StartProcesses>(start);
  }
  refuse(
      fmt::format("is not in this build; tried {}", base::list_text(tried)),
      "install Open MPI (apt-get install libopenmpi-dev openmpi-bin), configure and build again, or use \"threads\"");
  return nullptr;
}

}  // namespace

std::string module_build() {
  return fmt::format("{} {} {} {}", RESHARD_VERSION, __VERSION__, sizeof(ProcessOptions), sizeof(ModuleError));
}

std::unique_ptr<Processes> start_processes(const std::string& name, const ProcessOptions& options,
                                           const std::string& where) {
  const StartProcesses start = load(name, where);
  ModuleError error;
  std::unique_ptr<Processes> processes(start(module_build().c_str(), &options, &error));
  if (processes == nullptr) throw Error(static_cast<ErrorCode>(error.code), error.what, where, error.remedy);
  return processes;
}

std::optional<Launched> launched() {
  struct Variables {
    const char *rank, *size, *by;
  };
  static constexpr Variables kKnown[] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "mpirun"},
                                         {"PMI_RANK", "PMI_SIZE", "mpiexec"},
                                         {"SLURM_PROCID", "SLURM_NTASKS", "srun"},
                                         {"RANK", "WORLD_SIZE", "torchrun"}};
  for (const Variables& one : kKnown) {
    const char *rank = std::getenv(one.rank), *size = std::getenv(one.size);
    if (rank == nullptr || size == nullptr) continue;
    const Launched launched{std::atoi(rank), std::atoi(size), one.by};
    if (launched.size >= 1 && launched.rank >= 0 && launched.rank < launched.size) return launched;
  }
  return std::nullopt;
}

}  // namespace reshard::comm
