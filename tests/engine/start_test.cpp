// A rank whose thread cannot be started, because the process may use no more address space: the ranks that have started
// are told, and launch throws. In a process of its own, which alone is limited.

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include <gtest/gtest.h>

#include "reshard/error.h"
#include "tests/engine/toy.h"

namespace reshard {
namespace {

// Room for a few stacks more.
void limit_address_space() {
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const auto bytes = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE)) + (rlim_t{24} << 20);
  const rlimit limit{bytes, bytes};
  if (setrlimit(RLIMIT_AS, &limit) != 0) std::abort();
}

[[noreturn]] void launch_too_many() {
  limit_address_space();
  const auto begin = std::chrono::steady_clock::now();
  std::string told = "nobody was told";
  try {
    launch(toy::job(200, "zero3"), [&](Rank& rank) {
      try {
        rank.barrier();
      } catch (const Error& error) {
        if (rank.first()) told = error.what();
        throw;
      }
    });
  } catch (const Error& error) {
    std::fprintf(stderr, "%s: %s\n%s\n", name(error.code()), error.what(), told.c_str());
  }
  std::exit(std::chrono::steady_clock::now() - begin < std::chrono::seconds(1) ? 0 : 1);
}

TEST(StartDeathTest, ARankThatCannotBeStartedEndsAll) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      launch_too_many(), testing::ExitedWithCode(0),
      "^io: cannot start rank ([0-9]+) of 200: Resource temporarily unavailable \\(use fewer ranks, or raise the "
      "limits on threads and memory \\(ulimit -u, ulimit -v\\)\\)\n"
      "rank 0, barrier: rank [0-9]+ failed: it could not be started \\(mend what ended rank [0-9]+\\)\n$");
}

}  // namespace
}  // namespace reshard
