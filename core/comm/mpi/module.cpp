// The module reshard-mpi.so: processes that mpirun or srun has started, as MPI knows them. On one host MPI is asked for
// little: who is there, and memory that they share. On several, see hosts/.

#include <mpi.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>

#include <fmt/format.h>

#include "comm/mpi/hosts/communicator.h"
#include "comm/mpi/window.h"
#include "comm/processes.h"
#include "reshard/text.h"

namespace reshard::comm::mpi {
namespace {

[[noreturn]] void refuse(ErrorCode code, const std::string& what, const std::string& remedy) {
  throw Error(code, what, "", remedy);
}

void check(int status, const char* what) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int size = 0;
  MPI_Error_string(status, text, &size);
  refuse(ErrorCode::communication, fmt::format("MPI could not {}: {}", what, text), "see what mpirun says");
}

// MPI is started once per process and ended with it. A process that ends by exit() after a failure meets the others
// here, so that the launcher ends nobody who still has something to say.
void start_mpi() {
  int started = 0;
  MPI_Initialized(&started);
  if (started != 0) return;
  int provided = 0;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "be started");
  std::atexit([] {
    int ended = 0;
    MPI_Finalized(&ended);
    if (ended == 0) MPI_Finalize();
  });
}

// A barrier that ends: a process that never comes is an error, not a hang.
void meet(MPI_Comm all, double seconds, int ranks) {
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Ibarrier(all, &request), "begin a barrier");
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (int done = 0; done == 0;) {
    check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "wait in a barrier");
    if (done != 0) break;
    if (std::chrono::steady_clock::now() > end)
      refuse(ErrorCode::communication,
             fmt::format("not all {} processes came to the start within {:g} s", ranks, seconds),
             "every process must run the same program with the same job");
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

class MpiProcesses final : public Processes {
 public:
  explicit MpiProcesses(const ProcessOptions& options) : seconds_(options.timeout_seconds) {
    start_mpi();
    check(MPI_Comm_dup(MPI_COMM_WORLD, &all_), "make a communicator");
    MPI_Comm_set_errhandler(all_, MPI_ERRORS_RETURN);
    int rank = 0, ranks = 1;
    MPI_Comm_rank(all_, &rank);
    MPI_Comm_size(all_, &ranks);
    meet(all_, seconds_, ranks);
    auto terms = std::make_shared<Terms>(Terms{.board = Board(map(rank, ranks), ranks),
                                               .rank = rank,
                                               .hosts = hosts(ranks),
                                               .timeout_seconds = options.timeout_seconds,
                                               .patience = device::Patience::of(ranks * options.threads_per_rank)});
    terms->board.seat(rank).process.store(getpid(), std::memory_order_release);
    terms_ = std::move(terms);
    meet(all_, seconds_, ranks);
  }

  // Nothing is given back to MPI: that would wait for processes that may never come. It ends with the process.
  ~MpiProcesses() override = default;

  std::unique_ptr<Communicator> communicator() override { return make_window_communicator(terms_); }
  std::string host(int rank) const override { return terms_->hosts[static_cast<size_t>(rank)]; }

  bool wait_for_all() override {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds_);
    while (!everybody_is_done()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }

  bool is_first_of_ended() const override {
    for (int r = 0; r < terms_->rank; ++r)
      if (terms_->board.seat(r).ended.load(std::memory_order_acquire) != 0) return false;
    return true;
  }

 private:
  // The board: in memory that the first rank of the host has and all map.
  void* map(int rank, int ranks) {
    check(MPI_Comm_split_type(all_, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host_), "find this host's processes");
    void* own = nullptr;
    const size_t bytes = rank == 0 ? Board::bytes(ranks) : 0;
    check(MPI_Win_allocate_shared(static_cast<MPI_Aint>(bytes), 1, MPI_INFO_NULL, host_, &own, &window_),
          "share memory between processes (is /dev/shm or /tmp full?)");
    MPI_Aint size = 0;
    int unit = 0;
    void* memory = nullptr;
    check(MPI_Win_shared_query(window_, 0, &size, &unit, &memory), "find the shared memory");
    if (rank == 0) std::memset(memory, 0, Board::begin_of_mailboxes(ranks));
    return memory;
  }

  std::vector<std::string> names(int ranks) const {
    std::array<char, 64> mine{};
    gethostname(mine.data(), mine.size() - 1);
    std::vector<char> all(mine.size() * static_cast<size_t>(ranks));
    check(MPI_Allgather(mine.data(), static_cast<int>(mine.size()), MPI_CHAR, all.data(), static_cast<int>(mine.size()),
                        MPI_CHAR, all_),
          "tell the hosts' names");
    std::vector<std::string> names;
    for (int r = 0; r < ranks; ++r) names.emplace_back(all.data() + mine.size() * static_cast<size_t>(r));
    return names;
  }
  std::vector<std::string> hosts(int ranks) const { return names(ranks); }

  bool everybody_is_done() const {
    for (int r = 0; r < terms_->board.ranks(); ++r) {
      const Seat& seat = terms_->board.seat(r);
      if (seat.ended.load(std::memory_order_acquire) == 0 && is_alive(seat)) return false;
    }
    return true;
  }

  const double seconds_;
  MPI_Comm all_ = MPI_COMM_NULL, host_ = MPI_COMM_NULL;
  MPI_Win window_ = MPI_WIN_NULL;
  std::shared_ptr<const Terms> terms_;
};

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
    if (comm::hosts::are_several())
      return comm::hosts::start(
                 {.timeout_seconds = options->timeout_seconds, .threads_per_rank = options->threads_per_rank})
          .release();
    return new comm::mpi::MpiProcesses(*options);
  } catch (const Error& failure) {
    comm::mpi::put(failure, *error);
  } catch (const std::exception& failure) {
    comm::mpi::put(Error(ErrorCode::communication, failure.what()), *error);
  }
  return nullptr;
}
