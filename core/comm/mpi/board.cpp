#include "comm/mpi/board.h"

namespace reshard::comm::mpi {
namespace {

[[noreturn]] void throw_text(const FailureText& text, std::string where) {
  throw Error(static_cast<ErrorCode>(text.code), text.what, std::move(where), text.remedy);
}

}  // namespace

// The first to claim the place writes. Should it be killed in between, the others go on with what it wrote.
bool Board::write(FailureText& to, const FailureText& text, uint32_t claim, uint32_t set) noexcept {
  if ((memory_->state.fetch_or(claim) & claim) == 0) {
    to = text;
    memory_->state.fetch_or(set);
    return true;
  }
  constexpr int64_t kWriting = 200'000'000;
  const int64_t until = now_nanoseconds() + kWriting;
  while ((memory_->state.load() & set) == 0 && now_nanoseconds() < until) sleep_nanoseconds(10'000);
  memory_->state.fetch_or(set);
  return false;
}

bool Board::interrupt(const FailureText& text) noexcept {
  return !is_set() && write(memory_->interruption, text, kInterrupting, kInterrupted);
}

bool Board::end(const FailureText& text) noexcept {
  return !is_final() && write(memory_->final, text, kEnding, kFinal);
}

void Board::raise(std::string where) const {
  const bool interrupted = (memory_->state.load(std::memory_order_acquire) & kInterrupted) != 0;
  throw_text(interrupted ? memory_->interruption : memory_->final, std::move(where));
}

void Board::raise_final(std::string where) const {
  throw_text(memory_->final, std::move(where));
}

FailureText as_text(const Cause& cause) {
  FailureText text;
  text.code = static_cast<int32_t>(cause.code);
  copy_text(text.what, cause.what);
  copy_text(text.remedy, cause.remedy);
  return text;
}

}  // namespace reshard::comm::mpi
