#include "comm/mpi/mail.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "comm/mpi/meet.h"

namespace reshard::comm::mpi {
namespace {

constexpr int kLetters = 1;  // the tag
constexpr int64_t kBetweenLooks = 2'000'000;

}  // namespace

Mail::Mail(MPI_Comm all, int rank, int size, std::vector<int> far, Board board)
    : all_(all),
      rank_(rank),
      far_(std::move(far)),
      board_(board),
      state_(std::make_unique<FarRank[]>(static_cast<size_t>(size))) {
  if (far_.empty()) return;
  looker_ = std::thread([this] {
    while (!ending_.load()) {
      look();
      sleep_nanoseconds(kBetweenLooks);
    }
  });
}

// What is still on its way stays where it is, because MPI reads and writes there.
Mail::~Mail() {
  stop_looking();
  if (!outgoing_.empty()) new std::list<Outgoing>(std::move(outgoing_));
  if (!incoming_.empty()) new std::list<Incoming>(std::move(incoming_));
}

void Mail::stop_looking() {
  ending_ = true;
  if (looker_.joinable()) looker_.join();
}

void Mail::post(SharedCounter& step, const Letter& letter, const std::vector<Part>& parts, size_t part_bytes) {
  const std::lock_guard lock(mutex_);
  step.set(letter.number);
  for (const Part& part : parts) send_under_lock(part.to, letter, part.payload, part_bytes);
}

void Mail::send(int to, Letter letter, const void* payload, size_t payload_bytes) {
  const std::lock_guard lock(mutex_);
  send_under_lock(to, letter, payload, payload_bytes);
}

void Mail::send_under_lock(int to, Letter letter, const void* payload, size_t payload_bytes) {
  letter.from = rank_;
  letter.payload_bytes = payload_bytes;
  Outgoing outgoing;
  outgoing.bytes = std::make_unique<std::byte[]>(sizeof letter + payload_bytes);
  std::memcpy(outgoing.bytes.get(), &letter, sizeof letter);
  if (payload_bytes > 0) std::memcpy(outgoing.bytes.get() + sizeof letter, payload, payload_bytes);
  outgoing_.push_back(std::move(outgoing));
  Outgoing& last = outgoing_.back();
  check(MPI_Isend(last.bytes.get(), static_cast<int>(sizeof letter + payload_bytes), MPI_BYTE, to, kLetters, all_,
                  &last.request),
        "MPI_Isend");
}

void Mail::send_to_far(const Letter& letter, const void* payload, size_t payload_bytes) noexcept {
  try {
    for (const int to : far_) send(to, letter, payload, payload_bytes);
    look();
  } catch (const std::exception&) {  // the others learn of it by their own time limit
  }
}

void Mail::look() noexcept {
  if (far_.empty()) return;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;
  try {
    progress();
  } catch (const Error& error) {
    board_.end(as_text({.code = error.code(), .what = error.message(), .remedy = error.remedy()}));
  } catch (const std::exception& error) {
    board_.end(as_text({.code = ErrorCode::communication, .what = error.what(), .remedy = ""}));
  }
}

void Mail::progress() {
  receive_announced();
  file_arrived();
  for (auto one = outgoing_.begin(); one != outgoing_.end();) {
    int done = 0;
    check(MPI_Test(&one->request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    one = done != 0 ? outgoing_.erase(one) : std::next(one);
  }
}

void Mail::receive_announced() {
  for (;;) {
    int there = 0, bytes = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    check(MPI_Improbe(MPI_ANY_SOURCE, kLetters, all_, &there, &message, &status), "MPI_Improbe");
    if (there == 0) return;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    Incoming& one = incoming_.emplace_back();
    one.from = status.MPI_SOURCE;
    one.bytes.resize(static_cast<size_t>(bytes));
    check(MPI_Imrecv(one.bytes.data(), bytes, MPI_BYTE, &message, &one.request), "MPI_Imrecv");
  }
}

// One rank's letters are read in the order in which it wrote them, whichever arrives first.
void Mail::file_arrived() {
  std::vector<int> waiting;
  for (auto one = incoming_.begin(); one != incoming_.end();) {
    int done = 0;
    if (std::find(waiting.begin(), waiting.end(), one->from) == waiting.end())
      check(MPI_Test(&one->request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done == 0) {
      waiting.push_back(one->from);
      ++one;
      continue;
    }
    Letter letter;
    if (one->bytes.size() >= sizeof letter) {
      std::memcpy(static_cast<void*>(&letter), one->bytes.data(), sizeof letter);
      if (letter.payload_bytes == one->bytes.size() - sizeof letter) file(letter, one->bytes.data() + sizeof letter);
    }
    one = incoming_.erase(one);
  }
}

void Mail::file(const Letter& letter, const std::byte* payload) {
  FarRank& far = state_[static_cast<size_t>(letter.from)];
  const auto failure = [&] {
    FailureText text;
    if (letter.payload_bytes == sizeof text) std::memcpy(&text, payload, sizeof text);
    return text;
  };
  switch (letter.kind) {
    case Letter::Kind::post: {
      Mirror& mirror = mirrors_[{letter.key, letter.from}];
      mirror.records[letter.number & 1U] = letter.record;
      mirror.payloads[letter.number & 1U].assign(payload, payload + letter.payload_bytes);
      mirror.step.store(letter.number, std::memory_order_release);
      return;
    }
    // Whatever this rank has posted has been sent before, so the answer says nothing but that.
    case Letter::Kind::ask: {
      send_under_lock(letter.from, {.kind = Letter::Kind::answer, .key = letter.key, .number = letter.number}, nullptr,
                      0);
      return;
    }
    case Letter::Kind::answer: mirrors_[{letter.key, letter.from}].answered = letter.number; return;
    case Letter::Kind::interrupt: board_.interrupt(failure()); return;
    case Letter::Kind::end: board_.end(failure()); return;
    case Letter::Kind::leave: far.left = true; return;
    case Letter::Kind::recover: far.recovery = letter.number; return;
    case Letter::Kind::ended: far.ended = static_cast<int>(letter.number); return;
  }
}

bool Mail::is_sent() {
  const std::lock_guard lock(mutex_);
  return outgoing_.empty();
}

Mirror& Mail::mirror(uint64_t key, int rank) {
  const std::lock_guard lock(mutex_);
  return mirrors_[{key, rank}];
}

void Mail::forget(uint64_t key) {
  const std::lock_guard lock(mutex_);
  std::erase_if(mirrors_, [key](const auto& one) { return one.first.first == key; });
}

void Mail::start_anew() {
  const std::lock_guard lock(mutex_);
  for (auto& [place, mirror] : mirrors_) mirror.step = 0, mirror.answered = 0;
}

void Mail::check(int result, const char* call) {
  check_mpi(result, call);
}

}  // namespace reshard::comm::mpi
