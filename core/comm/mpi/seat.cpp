#include "comm/mpi/seat.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <numeric>

#include <fmt/format.h>

#include "base/check.h"
#include "comm/mpi/meet.h"
#include "device/device.h"
#include "reshard/error.h"

namespace reshard::comm::mpi {

Seat::Seat(const SeatOptions& options)
    : timeout_seconds_(options.timeout_seconds),
      streaming_bytes_(options.streaming_bytes == 0 ? device::streaming_bytes() : options.streaming_bytes),
      blocks_(kBlocks) {
  size_ = options.ranks;
  if (size_ == 0) MPI_Comm_size(MPI_COMM_WORLD, &size_);
  MPI_Group everybody = MPI_GROUP_NULL, these = MPI_GROUP_NULL;
  std::vector<int> ranks(static_cast<size_t>(size_));
  std::iota(ranks.begin(), ranks.end(), 0);
  check_mpi(MPI_Comm_group(MPI_COMM_WORLD, &everybody), "MPI_Comm_group");
  check_mpi(MPI_Group_incl(everybody, size_, ranks.data(), &these), "MPI_Group_incl");
  check_mpi(MPI_Comm_create_group(MPI_COMM_WORLD, these, 0, &all_), "MPI_Comm_create_group");
  MPI_Group_free(&these);
  MPI_Group_free(&everybody);
  MPI_Comm_set_errhandler(all_, MPI_ERRORS_RETURN);
  MPI_Comm_rank(all_, &rank_);
  find_hosts(options.pretended);
  find_names();
  make_window();
  std::vector<int> far;
  for (int rank = 0; rank < size_; ++rank)
    if (!is_near(rank)) far.push_back(rank);
  const auto near = size_ - static_cast<int>(far.size());
  patience_ = device::Patience::of(near * options.threads_per_rank);
  board_ = std::make_unique<Board>(&area(first_near_).board);
  mail_ = std::make_unique<Mail>(all_, rank_, size_, std::move(far), *board_);
}

Seat::Seat(void* memory, int rank, const SeatOptions& options)
    : rank_(rank),
      size_(options.ranks),
      timeout_seconds_(options.timeout_seconds),
      streaming_bytes_(options.streaming_bytes == 0 ? device::streaming_bytes() : options.streaming_bytes),
      patience_(device::Patience::of(options.ranks * options.threads_per_rank)),
      host_names_(static_cast<size_t>(size_), "here"),
      blocks_(kBlocks) {
  for (int other = 0; other < size_; ++other) {
    names_.push_back(fmt::format("rank {}", other));
    areas_.push_back(
        reinterpret_cast<Area*>(static_cast<std::byte*>(memory) + static_cast<size_t>(other) * kWindowBytes));
  }
  mine().process = getpid();
  board_ = std::make_unique<Board>(&area(0).board);
  mail_ = std::make_unique<Mail>(all_, rank_, size_, std::vector<int>(), *board_);
}

// All that is collective here waits with a limit, because a rank may be gone. After a failure all have been told.
Seat::~Seat() {
  constexpr double kShort = 2;
  mail_->stop_looking();
  if (all_ == MPI_COMM_NULL) return;
  const double seconds = board_->is_final() ? kShort : std::max(kShort, timeout_seconds_);
  const bool all_here = !lost_ && meet_all(all_, seconds, [this] { mail_->look(); });
  mail_.reset();
  if (!all_here) return;  // MPI would wait for the others
  MPI_Win_free(&window_);
  MPI_Comm_free(&host_);
  MPI_Comm_free(&all_);
}

void Seat::find_hosts(const std::vector<int>& pretended) {
  MPI_Comm machine = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(all_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &machine), "MPI_Comm_split_type");
  int colour = 0;
  for (int end = 0; colour < static_cast<int>(pretended.size()); ++colour) {
    end += pretended[static_cast<size_t>(colour)];
    if (rank_ < end) break;
  }
  check_mpi(MPI_Comm_split(machine, colour, rank_, &host_), "MPI_Comm_split");
  MPI_Comm_free(&machine);
  first_near_ = rank_;
  check_mpi(MPI_Bcast(&first_near_, 1, MPI_INT, 0, host_), "MPI_Bcast");
  std::vector<int> firsts(static_cast<size_t>(size_));
  check_mpi(MPI_Allgather(&first_near_, 1, MPI_INT, firsts.data(), 1, MPI_INT, all_), "MPI_Allgather");
  std::sort(firsts.begin(), firsts.end());
  hosts_ = static_cast<int>(std::unique(firsts.begin(), firsts.end()) - firsts.begin());
}

void Seat::find_names() {
  char own[MPI_MAX_PROCESSOR_NAME] = {};
  int length = 0;
  MPI_Get_processor_name(own, &length);
  std::vector<char> all(static_cast<size_t>(size_) * sizeof own);
  check_mpi(MPI_Allgather(own, sizeof own, MPI_CHAR, all.data(), sizeof own, MPI_CHAR, all_), "MPI_Allgather");
  for (int rank = 0; rank < size_; ++rank)
    host_names_.emplace_back(all.data() + static_cast<size_t>(rank) * sizeof own);
  const bool several = std::any_of(host_names_.begin(), host_names_.end(), [&](const auto& one) { return one != own; });
  for (int rank = 0; rank < size_; ++rank)
    names_.push_back(several ? fmt::format("rank {} on {}", rank, host(rank)) : fmt::format("rank {}", rank));
}

void Seat::make_window() {
  MPI_Comm_set_errhandler(host_, MPI_ERRORS_RETURN);
  void* base = nullptr;
  const int result =
      MPI_Win_allocate_shared(static_cast<MPI_Aint>(kWindowBytes + 4096), 1, MPI_INFO_NULL, host_, &base, &window_);
  if (result != MPI_SUCCESS)
    throw Error(ErrorCode::communication,
                fmt::format("the ranks of a host cannot share {} MiB of memory each", kWindowBytes >> 20), "",
                "give the host more of it: see df /dev/shm");
  int near = 0;
  MPI_Comm_size(host_, &near);
  std::vector<int> ranks(static_cast<size_t>(near));
  check_mpi(MPI_Allgather(&rank_, 1, MPI_INT, ranks.data(), 1, MPI_INT, host_), "MPI_Allgather");
  areas_.assign(static_cast<size_t>(size_), nullptr);
  for (int place = 0; place < near; ++place) {
    MPI_Aint bytes = 0;
    int unit = 0;
    check_mpi(MPI_Win_shared_query(window_, place, &bytes, &unit, &base), "MPI_Win_shared_query");
    // MPI promises no alignment. A page is one in every process, so all of them round up to the same byte.
    size_t room = kWindowBytes + alignof(Area);
    RESHARD_CHECK(std::align(alignof(Area), kWindowBytes, base, room) != nullptr, "a window has room for an area");
    areas_[static_cast<size_t>(ranks[static_cast<size_t>(place)])] = static_cast<Area*>(base);
  }
  new (&mine()) Area;
  mine().process = getpid();
  check_mpi(MPI_Barrier(host_), "MPI_Barrier");
}

Slot& Seat::make_slot(uint64_t key) {
  const std::lock_guard lock(mutex_);
  if (slots_ == kSlots)
    throw Error(ErrorCode::communication, fmt::format("a rank has been in {} groups, and no more fit", kSlots), "",
                "make a group once and keep it");
  Slot& slot = mine().slots[slots_];
  slot.key.store(key, std::memory_order_release);
  mine().slots_used.store(++slots_, std::memory_order_release);
  return slot;
}

uint64_t Seat::take_block() {
  const std::lock_guard lock(mutex_);
  const auto free = std::find(blocks_.begin(), blocks_.end(), false);
  if (free == blocks_.end())
    throw Error(ErrorCode::communication, fmt::format("a rank uses more than {} groups at once", kBlocks), "",
                "use a smaller number of groups");
  *free = true;
  return kHeapBegin + static_cast<uint64_t>(free - blocks_.begin()) * kBlockBytes;
}

void Seat::give_block(uint64_t offset) {
  const std::lock_guard lock(mutex_);
  blocks_[(offset - kHeapBegin) / kBlockBytes] = false;
}

void Seat::interrupt(const Cause& cause) noexcept {
  const FailureText text = as_text(cause);
  if (!board_->interrupt(text)) return;
  mail_->send_to_far({.kind = Letter::Kind::interrupt}, &text, sizeof text);
}

void Seat::end(const Cause& cause) noexcept {
  const FailureText text = as_text(cause);
  if (!board_->end(text)) return;
  mail_->send_to_far({.kind = Letter::Kind::end}, &text, sizeof text);
}

void Seat::leave() noexcept {
  mine().left = 1;
  mail_->send_to_far({.kind = Letter::Kind::leave}, nullptr, 0);
}

bool Seat::is_dead(int rank) {
  const int32_t process = is_near(rank) ? area(rank).process.load() : 0;  // 0: its own is not known yet
  return process != 0 && kill(process, 0) != 0 && errno == ESRCH;
}

// Three meetings. At the first nobody is in a collective any more. At the second everybody has read all letters from
// before the first, so that no old interruption and no old answer comes after it; then everybody starts anew, and each
// host's first rank clears its board. After the third all go on.
void Seat::recover() {
  if (board_->is_final()) board_->raise_final(fmt::format("rank {}, recovery", rank_));
  const uint32_t first = 3 * recoveries_ + 1;
  meet_in_recovery(first);
  meet_in_recovery(first + 1);
  for (uint32_t i = 0; i < mine().slots_used.load(); ++i) {
    mine().slots[i].step.set(0);
    mine().slots[i].number = 0;
  }
  mail_->start_anew();
  if (rank_ == first_near_) board_->clear();
  meet_in_recovery(first + 2);
  ++recoveries_;
}

void Seat::meet_in_recovery(uint32_t counter) {
  mine().recovery.set(counter);
  mail_->send_to_far({.kind = Letter::Kind::recover, .number = counter}, nullptr, 0);
  const int64_t until = now_nanoseconds() + static_cast<int64_t>(timeout_seconds_ * 1e9);
  for (int rank = 0; rank < size_; ++rank) {
    for (int turn = 0;; ++turn) {
      const uint32_t seen = recovery_of(rank);
      if (static_cast<int32_t>(seen - counter) >= 0) break;
      if (turn < patience_.yields) {
        device::yield_thread();
        mail_->look();
        continue;
      }
      check_recovery(counter, now_nanoseconds() > until);
      const int64_t pause = mail_->needed() ? 200'000 : device::kSleepNanoseconds;
      if (is_near(rank)) {
        area(rank).recovery.sleep(seen, pause);
      } else {
        sleep_nanoseconds(pause);
      }
      mail_->look();
    }
  }
}

// Called while somebody is missing: ends the wait if not all will come.
void Seat::check_recovery(uint32_t counter, bool late) {
  for (int other = 0; other < size_ && !board_->is_final(); ++other) {
    if (static_cast<int32_t>(recovery_of(other) - counter) >= 0) continue;
    if (has_left(other) || is_dead(other)) {
      end({.code = ErrorCode::rank_failed,
           .what = fmt::format("{} {} while {} waits for it in the recovery", name(other),
                               has_left(other) ? "returned" : "ended without a word", name(rank_)),
           .remedy = "every rank must run the same steps"});
    } else if (late) {
      end({.code = ErrorCode::communication,
           .what = fmt::format("{} did not come to the recovery within {:g} s", name(other), timeout_seconds_),
           .remedy = fmt::format("see what rank {} is doing, or allow more time if it only computes for long", other)});
    }
  }
  if (board_->is_final()) board_->raise_final(fmt::format("rank {}, recovery", rank_));
}

void Seat::tell_ended() noexcept {
  mine().ended = 0;
  mail_->send_to_far({.kind = Letter::Kind::ended}, nullptr, 0);
}

bool Seat::wait_until_all_are_done(double seconds) {
  const int64_t until = now_nanoseconds() + static_cast<int64_t>(seconds * 1e9);
  for (int rank = 0; rank < size_; ++rank) {
    while (!is_done(rank)) {
      if (now_nanoseconds() > until) lost_ = true;
      if (lost_) return false;
      mail_->look();
      sleep_nanoseconds(500'000);
    }
    if (is_dead(rank)) lost_ = true;
  }
  return true;
}

}  // namespace reshard::comm::mpi
