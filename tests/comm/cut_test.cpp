// A host is cut off in the middle of a step: the ranks of both sides end within the time limit, with an error that
// names a rank of the other side and its host. Run by two_hosts.sh alone, which cuts the wire; the ranks cannot tell
// each other what they got then, so each writes it into a folder.

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "comm/mpi/communicator.h"

namespace reshard::comm {
namespace {

TEST(HostCutOff, ends_the_ranks_of_both_sides) {
  const char* folder = std::getenv("RESHARD_TEST_CUT");
  if (folder == nullptr) GTEST_SKIP() << "see two_hosts.sh";
  const auto processes = mpi::start({.timeout_seconds = 2});
  const auto communicator = processes->communicator();
  const std::string file = folder + ("/" + std::to_string(communicator->rank()));
  constexpr size_t kCount = 300'000;
  std::vector<float> input(kCount * static_cast<size_t>(communicator->size()), 1.0F), output(kCount);
  for (int64_t steps = 0;; ++steps) {
    try {
      communicator->reduce_scatter(input.data(), Dtype::fp32, output.data(), Dtype::fp32, kCount, {},
                                   {.unit = 1, .unit_name = "h.1", .dtype = Dtype::fp32});
    } catch (const Error& error) {
      communicator->fail(error.message());
      std::ofstream(file + ".end") << error.what() << '\n';
      std::ofstream(file + ".done") << steps << '\n';
      _exit(0);  // the other side cannot be met any more
    }
    if (steps == 10) std::ofstream(file + ".begun") << steps << '\n';
  }
}

}  // namespace
}  // namespace reshard::comm
