#pragma once

// Runs a function once per rank, each on a thread of its own, and keeps what each threw. A program may say that ranks
// are elsewhere: the same tests, with the same texts to expect.

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "comm/local/local.h"

namespace reshard::comm {

using RunRanks =
    std::function<std::vector<std::exception_ptr>(const LocalOptions&, const std::function<void(Communicator&)>&)>;

// Where ranks are processes: what runs those of this one, and returns every rank's error all the same; how many
// processes there are, and which this is. Empty: ranks are threads.
struct Elsewhere {
  RunRanks run = {};
  int processes = 1, process = 0;
  std::function<int64_t(int ranks, int64_t mine)> sum = {};
  // Where they are threads all the same, but meet as processes do: a rank's communicator, and what is done before each
  // run.
  std::function<std::unique_ptr<Communicator>(const LocalOptions&, int rank)> make = {};
  std::function<void(const LocalOptions&)> prepare = {};
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

// One entry per rank: null where the rank ended well. As a program's launcher does, a rank that throws fails, one that
// returns leaves.
inline std::vector<std::exception_ptr> run_ranks(const LocalOptions& options,
                                                 const std::function<void(Communicator&)>& body) {
  if (elsewhere.run) return elsewhere.run(options, body);
  if (elsewhere.prepare) elsewhere.prepare(options);
  LocalRanks ranks(options);
  std::vector<std::exception_ptr> errors(static_cast<size_t>(options.ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < options.ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const std::unique_ptr<Communicator> communicator =
          elsewhere.make ? elsewhere.make(options, rank) : ranks.communicator(rank);
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
