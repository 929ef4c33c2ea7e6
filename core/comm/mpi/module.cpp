// The module reshard-mpi.so: processes that mpirun or srun has started, as MPI knows them.

#include <mpi.h>

#include <cstdlib>

#include <fmt/format.h>

#include "comm/mpi/communicator.h"
#include "comm/processes.h"

namespace reshard::comm::mpi {
namespace {

// MPI is started once per process and ended with it. A process that ends by exit() after a failure meets the others
// here, so that the launcher ends nobody who still has something to say.
void start_mpi() {
  int started = 0;
  MPI_Initialized(&started);
  if (started != 0) return;
  int provided = 0;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS)
    throw Error(ErrorCode::communication, "MPI could not be started", "", "see what mpirun says");
  std::atexit([] {
    int ended = 0;
    MPI_Finalized(&ended);
    if (ended == 0) MPI_Finalize();
  });
}

void put(const Error& from, ModuleError& to) {
  to.code = static_cast<int>(from.code());
  from.message().copy(to.what, sizeof to.what - 1);
  from.remedy().copy(to.remedy, sizeof to.remedy - 1);
}

}  // namespace
}  // namespace reshard::comm::mpi

extern "C" __attribute__((visibility("default"))) reshard::comm::Processes* reshard_processes_v1(
    const char* build, const reshard::comm::ProcessOptions* options, reshard::comm::ModuleError* error) {
  using namespace reshard;
  try {
    if (const std::string own = comm::module_build(); own != build)
      throw Error(ErrorCode::config,
                  fmt::format("the module reshard-mpi.so is of build {}, the program of {}", own, build), "",
                  "install both from one build");
    comm::mpi::start_mpi();
    return comm::mpi::start(
               {.timeout_seconds = options->timeout_seconds, .threads_per_rank = options->threads_per_rank})
        .release();
  } catch (const Error& failure) {
    comm::mpi::put(failure, *error);
  } catch (const std::exception& failure) {
    comm::mpi::put(Error(ErrorCode::communication, failure.what()), *error);
  }
  return nullptr;
}
