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
  LocalRanks ranks(options);
  const BoardMemory board(options.ranks);
  std::vector<std::exception_ptr> errors(static_cast<size_t>(options.ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < options.ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const std::unique_ptr<Communicator> communicator =
          on_board() ? board.communicator(options, rank) : ranks.communicator(rank);
      bool failed = true;
      std::string message;
      try {
        body(*communicator);
        failed = false;
      } catch (const Error& error) {
        message = error.message();
        errors[static_cast<size_t>(rank)] = std::current_exception();
      } catch (const std::exception& error) {
        message = error.what();
        errors[static_cast<size_t>(rank)] = std::current_exception();
      }
      if (failed) {
        communicator->fail(message);
      } else {
        communicator->leave();
      }
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
