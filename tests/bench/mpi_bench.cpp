// Our collectives, among threads and among the same processes, against MPI's, measured in turns in one run:
//
//   mpirun -n 2 build/bench/mpi_bench        (as root: --allow-run-as-root)
//
// Process 0 runs our ranks as its threads while the other processes sleep; ours among processes go through the module
// that [mesh] communicator = "mpi" loads. S is the bytes of a rank's whole buffer; the ratio is the median over the
// turns of MPI's time / ours.

#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "comm/local/local.h"
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

// A barrier whose waiting costs no core, as MPI's own would.
void sleep_until_all_are_here() {
  MPI_Request request;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  for (int done = 0; done == 0; usleep(200)) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
}

// Seconds per call, the slowest process counting.
double mpi_seconds(int rounds, const std::function<void()>& call) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  for (int i = 0; i < rounds; ++i) call();
  double mine = (MPI_Wtime() - start) / rounds, slowest = mine;
  MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest;
}

struct Ours {
  Ours(int count, size_t bytes) : team(count), ranks({.ranks = count}), all(static_cast<size_t>(count)) {
    team.seconds([&](int rank) {
      all[static_cast<size_t>(rank)] = {ranks.communicator(rank), std::make_unique<Buffers>(bytes)};
    });
  }
  struct Rank {
    std::unique_ptr<comm::Communicator> communicator;
    std::unique_ptr<Buffers> buffers;
  };
  Team team;
  comm::LocalRanks ranks;
  std::vector<Rank> all;
};

struct Case {
  const char* name;
  std::function<void(Buffers&)> mpi;
  std::function<void(comm::Communicator&, Buffers&)> ours;
};

void measure(const Case& one, size_t bytes, int rounds, Buffers& buffers, Ours* ours, comm::Communicator& all) {
  Pairs pairs, among_processes;
  for (int turn = 0; turn < 9; ++turn) {
    const double theirs = mpi_seconds(rounds, [&] { one.mpi(buffers); });
    const double processes = mpi_seconds(rounds, [&] { one.ours(all, buffers); });
    if (turn > 0) among_processes.add(processes, theirs);
    if (ours != nullptr) {
      const double seconds = ours->team.seconds([&](int rank) {
        Ours::Rank& own = ours->all[static_cast<size_t>(rank)];
        for (int i = 0; i < rounds; ++i) one.ours(*own.communicator, *own.buffers);
      });
      if (turn > 0) pairs.add(seconds / rounds, theirs);
    }
    sleep_until_all_are_here();
  }
  if (ours == nullptr) return;
  std::printf("%-22s %9s   MPI %9.1f us   threads %9.1f us, ratio %6.2f   processes %9.1f us, ratio %6.2f\n", one.name,
              base::bytes_text(static_cast<int64_t>(bytes)).c_str(), median(pairs.second) * 1e6,
              median(pairs.first) * 1e6, median(pairs.ratios), median(among_processes.first) * 1e6,
              median(among_processes.ratios));
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

void run() {
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const std::unique_ptr<comm::Processes> processes = comm::start_processes("mpi", {}, "mpi_bench");
  const std::unique_ptr<comm::Communicator> all = processes->communicator();
  for (const size_t kib : {4, 64, 1024, 4096, 65536}) {
    const size_t shard_bytes = (kib << 10) / static_cast<size_t>(ranks) / 64 * 64;
    const size_t bytes = shard_bytes * static_cast<size_t>(ranks);
    const int rounds = static_cast<int>(std::max<size_t>(1, 1024 / kib));
    Buffers buffers(bytes);
    const std::unique_ptr<Ours> ours = rank == 0 ? std::make_unique<Ours>(ranks, bytes) : nullptr;
    for (const Case& one : cases(shard_bytes, ranks)) measure(one, bytes, rounds, buffers, ours.get(), *all);
  }
}

}  // namespace
}  // namespace reshard::bench

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  reshard::bench::run();
  MPI_Finalize();
}
