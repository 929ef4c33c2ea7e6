// Collectives of ranks on several hosts against MPI's own among the same processes, measured in turns in one run:
//
//   mpirun -n 2 build/bench/hosts_bench        (as root: --allow-run-as-root; more ranks than cores: --oversubscribe)
//
// The ratio is the median over the turns of MPI's time / ours, for a rank's whole buffer of so many bytes. "near":
// those of one host meet in the window; "far": each process as if on a host of its own, by letters alone; "module":
// what a job gets here. --host a:2,b:2 measures two real ones.

#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "comm/mpi/communicator.h"
#include "comm/processes.h"
#include "memory/pool.h"
#include "reshard/text.h"
#include "tests/bench/team.h"

namespace reshard::bench {
namespace {

// One rank's buffers, on huge pages on both sides.
struct Buffers {
  explicit Buffers(size_t bytes)
      : whole(pool.allocate(static_cast<int64_t>(bytes), memory::Category::whole_parameters)),
        source(pool.allocate(static_cast<int64_t>(bytes), memory::Category::gradients)) {
    for (memory::Block* block : {&whole, &source}) std::memset(block->data(), 0, bytes);
  }
  memory::Pool pool;
  memory::Block whole, source;
};

// Seconds per call, the slowest process counting.
double seconds_of(int rounds, const std::function<void()>& call) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  for (int i = 0; i < rounds; ++i) call();
  double mine = (MPI_Wtime() - start) / rounds, slowest = mine;
  MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest;
}

struct Case {
  const char* name;
  std::function<void(Buffers&)> mpi;
  std::function<void(comm::Communicator&, Buffers&)> ours;
};

struct Ours {
  const char* name;
  std::unique_ptr<comm::Processes> processes;
  std::unique_ptr<comm::Communicator> communicator;
};

void measure(const Case& one, const Ours& ours, size_t bytes, Buffers& buffers) {
  const int rounds = static_cast<int>(std::max<size_t>(1, (size_t{1} << 20) / bytes));
  Pairs pairs;
  for (int turn = 0; turn < 9; ++turn) {
    const double theirs = seconds_of(rounds, [&] { one.mpi(buffers); });
    const double seconds = seconds_of(rounds, [&] { one.ours(*ours.communicator, buffers); });
    if (turn > 0) pairs.add(seconds, theirs);
  }
  if (ours.communicator->rank() != 0) return;
  std::printf("%-8s %-22s %10s   MPI %10.1f us   ours %10.1f us   ratio %6.2f\n", ours.name, one.name,
              base::bytes_text(static_cast<int64_t>(bytes)).c_str(), median(pairs.second) * 1e6,
              median(pairs.first) * 1e6, median(pairs.ratios));
  std::fflush(stdout);
}

std::vector<Case> cases(size_t shard_bytes, int ranks) {
  const auto count = static_cast<int>(shard_bytes / sizeof(float));
  const auto bytes = static_cast<int>(shard_bytes);
  const std::vector<int> counts(static_cast<size_t>(ranks), count);
  const auto reduce_scatter = [shard_bytes](comm::Communicator& all, Buffers& b) {
    all.reduce_scatter(b.source.data(), Dtype::fp32, b.whole.data(), Dtype::fp32, shard_bytes / sizeof(float), {}, {});
  };
  return {
      {"all_gather",
       [=](Buffers& b) {
         MPI_Allgather(b.source.data(), bytes, MPI_BYTE, b.whole.data(), bytes, MPI_BYTE, MPI_COMM_WORLD);
       },
       [=](comm::Communicator& all, Buffers& b) { all.all_gather(b.source.data(), shard_bytes, b.whole.data(), {}); }},
      {"reduce_scatter_block",
       [=](Buffers& b) {
         MPI_Reduce_scatter_block(b.source.data(), b.whole.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
       },
       reduce_scatter},
      {"reduce_scatter",
       [=](Buffers& b) {
         MPI_Reduce_scatter(b.source.data(), b.whole.data(), counts.data(), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
       },
       reduce_scatter},
      {"all_reduce",
       [=](Buffers& b) {
         MPI_Allreduce(b.source.data(), b.whole.data(), count * ranks, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
       },
       [=](comm::Communicator& all, Buffers& b) {
         all.all_reduce(b.source.data(), b.whole.data(), Dtype::fp32,
                        static_cast<size_t>(count) * static_cast<size_t>(ranks), {}, {});
       }},
  };
}

Ours ours_of(const char* name, std::unique_ptr<comm::Processes> processes) {
  auto communicator = processes->communicator();
  return {name, std::move(processes), std::move(communicator)};
}

void run() {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  std::vector<Ours> kinds;
  kinds.push_back(ours_of("module", comm::start_processes("mpi", {}, "hosts_bench")));
  kinds.push_back(ours_of("near", comm::mpi::start({})));
  kinds.push_back(ours_of("far", comm::mpi::start({.pretended = std::vector<int>(static_cast<size_t>(ranks), 1)})));
  for (const Ours& ours : kinds) {
    for (const size_t kib : {4, 64, 1024, 4096, 65536}) {
      const size_t shard_bytes = (kib << 10) / static_cast<size_t>(ranks) / 64 * 64;
      const size_t bytes = shard_bytes * static_cast<size_t>(ranks);
      Buffers buffers(bytes);
      for (const Case& one : cases(shard_bytes, ranks)) measure(one, ours, bytes, buffers);
    }
    ours.communicator->leave();
  }
}

}  // namespace
}  // namespace reshard::bench

int main(int argc, char** argv) {
  int threads = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &threads);
  reshard::bench::run();
  MPI_Finalize();
}
