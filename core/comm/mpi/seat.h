#pragma once

// What one process has of a set of ranks: their hosts, the window of its own host, and the letters to the others. All
// of its communicators share it.
//
// Threads: any. The constructor and the destructor are collective.

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/mpi/board.h"
#include "comm/mpi/communicator.h"
#include "comm/mpi/mail.h"
#include "comm/mpi/shared.h"
#include "device/host/wait.h"

namespace reshard::comm::mpi {

class Seat {
 public:
  // Throws Error(communication) for what MPI says.
  explicit Seat(const SeatOptions& options);
  // Without MPI, on one host, in memory that prepare() has made ready.
  Seat(void* memory, int rank, const SeatOptions& options);
  ~Seat();
  Seat(const Seat&) = delete;
  Seat& operator=(const Seat&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  int hosts() const { return hosts_; }
  bool is_near(int rank) const { return areas_[static_cast<size_t>(rank)] != nullptr; }
  Area& area(int rank) { return *areas_[static_cast<size_t>(rank)]; }  // REQUIRES: is_near(rank)
  Area& mine() { return area(rank_); }
  std::byte* memory(int rank) { return reinterpret_cast<std::byte*>(&area(rank)); }

  // "rank 1", or "rank 1 on node7" where the ranks are on several machines.
  const std::string& name(int rank) const { return names_[static_cast<size_t>(rank)]; }

  const std::string& host(int rank) const { return host_names_[static_cast<size_t>(rank)]; }

  Board& board() { return *board_; }
  Mail& mail() { return *mail_; }
  const device::Patience& patience() const { return patience_; }
  double timeout_seconds() const { return timeout_seconds_; }
  size_t streaming_bytes() const { return streaming_bytes_; }

  // A place for this rank in a group, and its two buffers; the place stays, the buffers are given back.
  Slot& make_slot(uint64_t key);
  uint64_t take_block();
  void give_block(uint64_t offset);

  // Tells all ranks.
  void interrupt(const Cause& cause) noexcept;
  void end(const Cause& cause) noexcept;
  void leave() noexcept;

  bool has_left(int rank) { return is_near(rank) ? area(rank).left.load() != 0 : mail_->left(rank); }
  // A near rank whose process is no more, without having said anything.
  bool is_dead(int rank);

  // Waits for all ranks, clears the interruption and starts all groups anew; as Communicator::recover().
  void recover();

  // This rank has said all that it has to say of its failure.
  void tell_ended() noexcept;
  // Whether it has left, failed or died.
  bool is_done(int rank) { return has_left(rank) || ended_of(rank) >= 0 || is_dead(rank); }
  bool wait_until_all_are_done(double seconds);

 private:
  void find_hosts(const std::vector<int>& pretended);
  void find_names();
  void make_window();
  void meet_in_recovery(uint32_t counter);
  void check_recovery(uint32_t counter, bool late);
  uint32_t recovery_of(int rank) { return is_near(rank) ? area(rank).recovery.value() : mail_->recovery(rank); }
  int ended_of(int rank) { return is_near(rank) ? area(rank).ended.load() : mail_->ended(rank); }

  int rank_ = 0, size_ = 1, hosts_ = 1;
  int first_near_ = 0;  // the rank whose board this host uses
  const double timeout_seconds_;
  size_t streaming_bytes_ = 0;
  device::Patience patience_;
  MPI_Comm all_ = MPI_COMM_NULL, host_ = MPI_COMM_NULL;
  MPI_Win window_ = MPI_WIN_NULL;
  std::vector<Area*> areas_;  // by rank; null on other hosts
  std::vector<std::string> names_, host_names_;
  std::unique_ptr<Board> board_;
  std::unique_ptr<Mail> mail_;
  std::mutex mutex_;  // of the two below
  std::vector<bool> blocks_;
  uint32_t slots_ = 0;
  uint32_t recoveries_ = 0;
  bool lost_ = false;  // a rank that will not come to the end
};

}  // namespace reshard::comm::mpi
