#pragma once

// Runs a function once per rank, each on a thread of its own, and keeps what each threw. With RESHARD_TEST_RANKS=board in the
// environment the ranks meet as processes of one host do, through a board; a test there has the same texts to expect.

#include <sys/mman.h>

#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "comm/local/local.h"
#include "comm/mpi/window.h"

namespace reshard::comm {

using RunRanks =
    std::function<std::vector<std::exception_ptr>(const LocalOptions&, const std::function<void(Communicator&)>&)>;

// Where ranks are processes: what runs those of this one, and returns every rank's error all the same; how many
// processes there are, and which this is. Empty: ranks are threads.
struct Elsewhere {
  RunRanks run;
  int processes = 1, process = 0;
  std::function<int64_t(int ranks, int64_t mine)> sum;
};
inline Elsewhere elsewhere;

// Whether this process runs any of so many ranks. If not, run_ranks() does nothing and no rank has an error.
inline bool is_rank(int ranks) {
  return !elsewhere.run || (ranks <= elsewhere.processes && elsewhere.process < ranks);
}

// Sums what ranks count: those of one process share a variable, those of several have one each.
inline int64_t sum_over_processes(int ranks, int64_t mine) {
  return elsewhere.sum && is_rank(ranks) ? elsewhere.sum(ranks, mine) : mine;
}

// Runs a rank's body; a rank that throws fails, one that returns leaves.
inline void run_rank(Communicator& communicator, const std::function<void(Communicator&)>& body,
                     std::exception_ptr& failure) {
  std::string message;
  try {
    body(communicator);
    return communicator.leave();
  } catch (const Error& error) {
    message = error.message();
    failure = std::current_exception();
  } catch (const std::exception& error) {
    message = error.what();
    failure = std::current_exception();
  }
  communicator.fail(message);
}

inline bool on_board() {
  const char* kind = std::getenv("RESHARD_TEST_RANKS");
  return kind != nullptr && std::string_view(kind) == "board";
}

// A board for so many ranks, gone with this.
class BoardMemory {
 public:
  explicit BoardMemory(int ranks) : bytes_(mpi::Board::bytes(ranks)) {
    memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory_ == MAP_FAILED) std::abort();
  }
  ~BoardMemory() { munmap(memory_, bytes_); }
  BoardMemory(const BoardMemory&) = delete;
  BoardMemory& operator=(const BoardMemory&) = delete;

  std::unique_ptr<Communicator> communicator(const LocalOptions& options, int rank) const {
    auto terms = std::make_shared<mpi::Terms>(mpi::Terms{
        .board = mpi::Board(memory_, options.ranks),
        .rank = rank,
        .hosts = std::vector<std::string>(static_cast<size_t>(options.ranks), "here"),
        .timeout_seconds = options.timeout_seconds,
        .patience = device::Patience::of(options.ranks * options.threads_per_rank)});
    return mpi::make_window_communicator(std::move(terms));
  }

 private:
  const size_t bytes_;
  void* memory_;
};

// One entry per rank: null where the rank ended well. As a program's launcher does, a rank that throws fails, one that
// returns leaves.
inline std::vector<std::exception_ptr> run_ranks(const LocalOptions& options,
                                                 const std::function<void(Communicator&)>& body) {
  if (elsewhere.run) return elsewhere.run(options, body);
  LocalRanks ranks(options);
  const BoardMemory board(options.ranks);
  std::vector<std::exception_ptr> errors(static_cast<size_t>(options.ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < options.ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const std::unique_ptr<Communicator> communicator =
          on_board() ? board.communicator(options, rank) : ranks.communicator(rank);
      run_rank(*communicator, body, errors[static_cast<size_t>(rank)]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

// The text of a kept exception, empty for none.
inline std::string text(const std::exception_ptr& error) {
  if (!error) return "";
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& caught) {
    return caught.what();
  }
}

}  // namespace reshard::comm
