// A program for tests whose ranks are processes: argv[1] says what rank 1 does in its third step. Rank 0 prints its
// error.

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>

#include "comm/processes.h"
#include "reshard/error.h"
#include "tests/engine/toy.h"

int main(int argc, char** argv) {
  using namespace reshard;
  const std::string way = argc > 1 ? argv[1] : "";
  const int ranks = comm::launched() ? comm::launched()->size : 1;
  Job job =
      toy::job(ranks, way == "other_plan" && comm::launched()->rank == 1 ? "zero2" : "zero3", 2, way == "overlap");
  job.mesh.communicator = "mpi";
  job.mesh.ranks_per_node = 1;
  job.mesh.timeout = 2;
  Model model({.name = "root", .parameters = {{"a", {100}}}});
  for (int u = 0; u < 3; ++u)
    model.add({.name = "h." + std::to_string(u), .parameters = {{"w" + std::to_string(u), {777}}}});
  try {
    launch(job, [&](Rank& rank) {
      Runtime runtime(job, model, rank);
      toy::fill(runtime);
      for (int s = 0; s < 4; ++s) {
        const auto place = [&] {
          if (s != 2 || rank.index() != 1) return;
          if (way == "throws") throw std::runtime_error("the disk is full");
          if (way == "dies") raise(SIGKILL);
          if (way == "hangs") std::this_thread::sleep_for(std::chrono::seconds(5));
          if (way == "exits") _exit(0);
        };
        if (way == "leaves" && s == 2 && rank.index() == 1) return;
        const double loss = runtime.step([&](MicroBatch at) { return toy::Pass(runtime, at, place)(); }).loss;
        if (rank.first()) std::printf("%d %a\n", s, loss);
      }
    });
  } catch (const Error& error) {
    if (!comm::launched() || comm::launched()->rank == 0) std::fprintf(stderr, "rank 0: %s\n", error.what());
    return 1;
  }
  return 0;
}
