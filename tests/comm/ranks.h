#pragma once

// Runs a function once per rank, each on a thread of its own, and keeps what each threw.

#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "comm/local/local.h"

namespace reshard::comm {

// One entry per rank: null where the rank ended well. As a program's launcher does, a rank that throws fails, one that
// returns leaves.
inline std::vector<std::exception_ptr> run_ranks(const LocalOptions& options,
                                                 const std::function<void(Communicator&)>& body) {
  LocalRanks ranks(options);
  std::vector<std::exception_ptr> errors(static_cast<size_t>(options.ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < options.ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const std::unique_ptr<Communicator> communicator = ranks.communicator(rank);
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
