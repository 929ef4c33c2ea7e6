// The communicator's tests with ranks that are threads and meet as processes of one host do, in memory that they share: what
// a sanitizer can follow.

#include <sys/mman.h>

#include <cstdlib>

#include <gtest/gtest.h>

#include "comm/mpi/communicator.h"
#include "tests/comm/ranks.h"

namespace {

// Of the running test.
class Memory {
 public:
  ~Memory() { clear(); }
  void prepare(int ranks) {
    clear();
    bytes_ = reshard::comm::mpi::memory_bytes(ranks);
    memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory_ == MAP_FAILED) std::abort();
    reshard::comm::mpi::prepare(memory_, ranks);
  }
  void* get() const { return memory_; }

 private:
  void clear() {
    if (memory_ != nullptr) munmap(memory_, bytes_);
  }
  void* memory_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  using namespace reshard::comm;
  testing::InitGoogleTest(&argc, argv);
  Memory memory;
  elsewhere.prepare = [&memory](const LocalOptions& options) { memory.prepare(options.ranks); };
  elsewhere.make = [&memory](const LocalOptions& options, int rank) {
    return mpi::communicator_in(memory.get(), rank,
                                {.ranks = options.ranks,
                                 .timeout_seconds = options.timeout_seconds,
                                 .threads_per_rank = options.threads_per_rank,
                                 .streaming_bytes = options.streaming_bytes});
  };
  const int result = RUN_ALL_TESTS();
  elsewhere = {};
  return result;
}
