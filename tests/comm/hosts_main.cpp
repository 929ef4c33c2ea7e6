// The communicator's tests with ranks that are processes of mpirun: the first so many of them. RESHARD_TEST_HOSTS =
// "2,1" makes the first two and the next one look like two hosts; without it they are what they are.

#include <mpi.h>

#include <cstdlib>
#include <cstring>
#include <sstream>

#include <gtest/gtest.h>

#include "comm/mpi/communicator.h"
#include "tests/comm/ranks.h"

namespace reshard::comm {
namespace {

std::vector<int> pretended_hosts() {
  std::vector<int> hosts;
  const char* value = std::getenv("RESHARD_TEST_HOSTS");
  std::istringstream in(value == nullptr ? "" : value);
  for (std::string one; std::getline(in, one, ',');) hosts.push_back(std::atoi(one.c_str()));
  return hosts;
}

std::unique_ptr<Processes> start(const LocalOptions& options) {
  return mpi::start({.ranks = options.ranks,
                     .timeout_seconds = options.timeout_seconds,
                     .threads_per_rank = options.threads_per_rank,
                     .streaming_bytes = options.streaming_bytes,
                     .pretended = pretended_hosts()});
}

// An error on its way to the other processes.
struct Sent {
  int code = -1;  // none
  char text[2000] = {};
};

Sent as_sent(const std::exception_ptr& failure) {
  Sent sent;
  if (!failure) return sent;
  sent.code = static_cast<int>(ErrorCode::io);
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    sent.code = static_cast<int>(error.code());
  } catch (...) {
  }
  std::strncpy(sent.text, text(failure).c_str(), sizeof sent.text - 1);
  return sent;
}

std::vector<std::exception_ptr> run(const LocalOptions& options, const std::function<void(Communicator&)>& body) {
  std::vector<std::exception_ptr> errors(static_cast<size_t>(options.ranks));
  if (!is_rank(options.ranks)) return errors;
  std::exception_ptr failure;
  {
    const auto ranks = start(options);
    run_rank(*ranks->communicator(), body, failure);
  }
  const auto afterwards = start({.ranks = options.ranks});
  std::vector<Sent> all(errors.size());
  const auto communicator = afterwards->communicator();
  communicator->exchange(as_sent(failure), std::span(all), {.unit_name = "the errors"});
  for (size_t rank = 0; rank < errors.size(); ++rank)
    if (all[rank].code >= 0)
      errors[rank] = std::make_exception_ptr(Error(static_cast<ErrorCode>(all[rank].code), all[rank].text));
  return errors;
}

int64_t sum(int ranks, int64_t mine) {
  std::vector<int64_t> all(static_cast<size_t>(ranks));
  start({.ranks = ranks})->communicator()->exchange(mine, std::span(all), {});
  int64_t total = 0;
  for (const int64_t one : all) total += one;
  return total;
}

}  // namespace
}  // namespace reshard::comm

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  int threads = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &threads);
  reshard::comm::Elsewhere here{.run = reshard::comm::run, .sum = reshard::comm::sum};
  MPI_Comm_rank(MPI_COMM_WORLD, &here.process);
  MPI_Comm_size(MPI_COMM_WORLD, &here.processes);
  reshard::comm::elsewhere = here;
  const int result = RUN_ALL_TESTS();
  MPI_Finalize();
  return result;
}
