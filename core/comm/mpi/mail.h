#pragma once

// Letters between ranks of different hosts, and what the letters so far have said: a far rank's post is kept here as a
// near one's lies in the window.
//
// Note "Nobody writes into a program's memory". Letters are sent from and received into memory of this object. So a
// rank that gives up, and frees its buffers, leaves nothing behind that MPI would still write to or read from.
//
// Note "In flight". A letter may be on its way while an interruption from another rank is here already. So a rank that
// waits for a far one's post and sees an interruption asks: letters keep their order, so the post, if there is one,
// comes before the answer.
//
// Threads: any. MPI calls are made under one lock, none of them waits; who does not get the lock leaves the work to the
// thread that has it. A thread of this object looks for letters while ranks compute.

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "comm/mpi/board.h"
#include "comm/mpi/shared.h"

namespace reshard::comm::mpi {

// A far rank's place in one group.
struct Mirror {
  std::atomic<uint32_t> step{0}, answered{0};  // it had not come to that step when it was asked
  Record records[2];
  std::vector<std::byte> payloads[2];
};

class Mail {
 public:
  // `far`: the ranks of other hosts; `all` is freed by the caller after this object.
  Mail(MPI_Comm all, int rank, int size, std::vector<int> far, Board board);
  ~Mail();
  Mail(const Mail&) = delete;
  Mail& operator=(const Mail&) = delete;

  // From here on only the caller looks for letters.
  void stop_looking();

  bool needed() const { return !far_.empty(); }

  // Shows near ranks, by the step, and then far ones, by letters, what this rank posts. A near one sees it before any
  // far one does, and nobody is answered in between: see the note "In flight".
  struct Part {
    int to = 0;
    const void* payload = nullptr;
  };
  void post(SharedCounter& step, const Letter& letter, const std::vector<Part>& parts, size_t part_bytes);

  // `payload` is copied.
  void send(int to, Letter letter, const void* payload, size_t payload_bytes);
  void send_to_far(const Letter& letter, const void* payload, size_t payload_bytes) noexcept;

  // Receives what has come and lets what goes out go on.
  void look() noexcept;

  // Whether nothing of this rank's is still on its way.
  bool is_sent();

  Mirror& mirror(uint64_t key, int rank);  // stays where it is
  void forget(uint64_t key);               // the group is gone
  void start_anew();                       // all steps are 0 again

  bool left(int rank) const { return state_[static_cast<size_t>(rank)].left.load(); }
  uint32_t recovery(int rank) const { return state_[static_cast<size_t>(rank)].recovery.load(); }
  int ended(int rank) const { return state_[static_cast<size_t>(rank)].ended.load(); }

 private:
  struct Outgoing {
    MPI_Request request = MPI_REQUEST_NULL;
    std::unique_ptr<std::byte[]> bytes;
  };
  struct Incoming {
    MPI_Request request = MPI_REQUEST_NULL;
    int from = 0;
    std::vector<std::byte> bytes;
  };
  struct FarRank {
    std::atomic<bool> left{false};
    std::atomic<uint32_t> recovery{0};
    std::atomic<int> ended{-1};
  };

  void send_under_lock(int to, Letter letter, const void* payload, size_t payload_bytes);
  void progress();  // under the lock
  void receive_announced();
  void file_arrived();
  void file(const Letter& letter, const std::byte* payload);
  void check(int result, const char* call);

  const MPI_Comm all_;
  const int rank_;
  const std::vector<int> far_;
  Board board_;
  std::mutex mutex_;
  std::list<Outgoing> outgoing_;
  std::map<std::pair<uint64_t, int>, Mirror> mirrors_;
  std::unique_ptr<FarRank[]> state_;
  std::atomic<bool> ending_{false};
  std::thread looker_;
  std::list<Incoming> incoming_;  // in the order in which they were announced
};

}  // namespace reshard::comm::mpi
