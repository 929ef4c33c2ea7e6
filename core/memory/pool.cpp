#include "memory/pool.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/math.h"
#include "reshard/error.h"
#include "reshard/text.h"

namespace reshard::memory {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kHugePage = int64_t{2} << 20;

int64_t physical_memory() {
  return static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<int64_t>(sysconf(_SC_PAGESIZE));
}

[[noreturn]] void no_memory(int64_t asked, int64_t held, int error) {
  throw Error(ErrorCode::io,
              "the system has no memory for a block of " + base::bytes_text(asked) + " (" + std::strerror(error) +
                  "); this rank holds " + base::bytes_text(held),
              "memory pool", "use more ranks, a smaller model, or a strategy that keeps less");
}

}  // namespace

Block& Block::operator=(Block&& other) noexcept {
  if (this == &other) return *this;
  release();
  pool_ = std::exchange(other.pool_, nullptr);
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  category_ = other.category_;
  return *this;
}

void Block::release() {
  if (pool_ != nullptr) pool_->release(*this);
  pool_ = nullptr;
  data_ = nullptr;
  bytes_ = 0;
}

// Addresses cost nothing, so as many are set aside as the machine has memory: no rank can use more. Where even
// addresses are limited (ulimit -v), fewer do.
Pool::Pool() {
  free_.reserve(256);
  for (int64_t pages = base::ceil_div(physical_memory(), kHugePage); pages >= 1; pages /= 2) {
    void* address = mmap(nullptr, static_cast<size_t>((pages + 1) * kHugePage), PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address == MAP_FAILED) continue;
    mapping_ = static_cast<char*>(address);
    const auto past = static_cast<int64_t>(reinterpret_cast<uintptr_t>(address) % kHugePage);
    range_ = mapping_ + (past == 0 ? 0 : kHugePage - past);
    reserved_ = pages * kHugePage;
    return;
  }
  no_memory(kHugePage, 0, errno);
}

Pool::~Pool() {
  RESHARD_CHECK(live_blocks_ == 0, "blocks are released before their pool dies");
  munmap(mapping_, static_cast<size_t>(reserved_ + kHugePage));
}

Block Pool::allocate(int64_t bytes, Category category) {
  RESHARD_CHECK(bytes >= 0, "a block has no negative size");
  if (bytes == 0) return {};
  if (bytes > reserved_) no_memory(bytes, size_, ENOMEM);
  const int64_t length = base::round_up(bytes, kAlignment);
  int64_t offset = cut(length);
  if (offset < 0) {
    grow(length);
    offset = cut(length);
  }
  ledger_.add(category, bytes);
  ++live_blocks_;
  return {this, range_ + offset, bytes, category};
}

int64_t Pool::cut(int64_t bytes) {
  const auto piece = std::find_if(free_.begin(), free_.end(), [&](const Piece& p) { return p.bytes >= bytes; });
  if (piece == free_.end()) return -1;
  const int64_t offset = piece->begin;
  piece->begin += bytes;
  piece->bytes -= bytes;
  if (piece->bytes == 0) free_.erase(piece);
  return offset;
}

void Pool::grow(int64_t bytes) {
  const bool free_at_end = !free_.empty() && free_.back().end() == size_;
  const int64_t missing = bytes - (free_at_end ? free_.back().bytes : 0);
  const int64_t more = base::round_up(missing, kHugePage);
  if (more > reserved_ - size_) no_memory(bytes, size_, ENOMEM);
  char* begin = range_ + size_;
  if (mprotect(begin, static_cast<size_t>(more), PROT_READ | PROT_WRITE) != 0) no_memory(bytes, size_, errno);
  madvise(begin, static_cast<size_t>(more), MADV_HUGEPAGE);  // where the system has none, small pages do
  add_free({size_, more});
  size_ += more;
  ++allocations_from_system_;
}

void Pool::release(const Block& block) {
  --live_blocks_;
  ledger_.remove(block.category_, block.bytes_);
  add_free({static_cast<char*>(block.data_) - range_, base::round_up(block.bytes_, kAlignment)});
}

void Pool::add_free(Piece piece) {
  const auto next = std::lower_bound(free_.begin(), free_.end(), piece,
                                     [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
  const bool joins_next = next != free_.end() && next->begin == piece.end();
  const bool joins_previous = next != free_.begin() && std::prev(next)->end() == piece.begin;
  if (joins_previous && joins_next) {
    std::prev(next)->bytes += piece.bytes + next->bytes;
    free_.erase(next);
  } else if (joins_previous) {
    std::prev(next)->bytes += piece.bytes;
  } else if (joins_next) {
    next->begin = piece.begin;
    next->bytes += piece.bytes;
  } else {
    free_.insert(next, piece);
  }
}

}  // namespace reshard::memory
