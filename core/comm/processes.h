#pragma once

// Ranks that are processes, which a launcher (mpirun, srun) has started. How they speak to each other is the business
// of a module, a .so beside the programs that is loaded when a job asks for it: so one binary serves machines with and
// without MPI. Threads: one at a time.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace reshard::comm {

struct ProcessOptions {
  double timeout_seconds = 60;  // how long a rank waits for another one in a collective
  int threads_per_rank = 1;     // 2 with a worker stream per rank
};

// All processes of one launch().
class Processes {
 public:
  virtual ~Processes() = default;
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  // Of this process among all of them. Once; it must not outlive this.
  virtual std::unique_ptr<Communicator> communicator() = 0;

  virtual std::string host(int rank) const = 0;

  // After this rank has failed or left: waits until all others have, for as long as a collective would wait. A launcher
  // ends all processes as soon as one ends with a failure; so each waits for the others to say what they have to say.
  // False: some have not, and will not be waited for.
  virtual bool wait_for_all() = 0;

  // Whether no rank before this one has failed or left: of those who can still say something, the first says it.
  virtual bool is_first_of_ended() const = 0;

 protected:
  Processes() = default;
};

// Loads the module `name` ("mpi") and meets all other processes, which call this the same time. Throws Error(config) at
// `where` where there is no such module, where it cannot be loaded, or is of another build; Error(communication) where
// a process does not come.
std::unique_ptr<Processes> start_processes(const std::string& name, const ProcessOptions& options,
                                           const std::string& where);

// What a launcher says to this process in its environment.
struct Launched {
  int rank = 0, size = 1;
  std::string by;  // "mpirun", "srun", "torchrun", or the variable
};
std::optional<Launched> launched();

// ---- Between this and a module

// What a module says when it cannot start; texts are cut.
struct ModuleError {
  int code = 0;  // an ErrorCode
  char what[1024] = {};
  char remedy[256] = {};
};

// "reshard_processes_v1": null with *error filled in, or what the caller deletes. `build` must be the module's own.
using StartProcesses = Processes* (*)(const char* build, const ProcessOptions* options, ModuleError* error);

// Version, compiler and the structs that cross: classes do, so both sides are of one build.
std::string module_build();

}  // namespace reshard::comm
