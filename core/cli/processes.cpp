#include "cli/processes.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "reshard/error.h"

namespace reshard::cli {

void start_processes(const Request& request, Output& output) {
  const LoadedJob loaded = load_job(request, output);
  std::vector<std::string> words{"mpirun",    "-n",   std::to_string(loaded.job.rank_count()),
                                 "--bind-to", "none", "--oversubscribe"};
  if (geteuid() == 0) words.push_back("--allow-run-as-root");
  std::error_code error;
  words.push_back(std::filesystem::read_symlink("/proc/self/exe", error).string());
  words.insert(words.end(), request.line.typed.begin() + 1, request.line.typed.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  throw Error(ErrorCode::config, fmt::format("cannot start mpirun: {}", std::strerror(errno)), "--processes",
              "install Open MPI (apt-get install openmpi-bin), or let the ranks be threads");
}

}  // namespace reshard::cli
