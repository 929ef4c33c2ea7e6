#include "comm/mpi/window.h"

#include <algorithm>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include "base/check.h"
#include "base/fingerprint.h"
#include "comm/reduce.h"
#include "device/device.h"

namespace reshard::comm::mpi {
namespace {

size_t width(Dtype dtype) {
  return static_cast<size_t>(bytes_of(dtype));
}

const std::byte* at(const void* data, size_t bytes) {
  return static_cast<const std::byte*>(data) + bytes;
}
std::byte* at(void* data, size_t bytes) {
  return static_cast<std::byte*>(data) + bytes;
}

// Same members in the same order, asked for the same time: the same group. Never 0.
uint64_t key_of(const std::vector<int>& members, uint64_t parent, uint64_t nth) {
  base::Fingerprint fingerprint;
  fingerprint.add(fmt::format("{} {} {}", parent, nth, fmt::join(members, " ")));
  return fingerprint.value() | 1;
}

class WindowCommunicator final : public Communicator {
 public:
  WindowCommunicator(std::shared_ptr<const Terms> terms, uint64_t key, const std::vector<int>& members, bool root)
      : terms_(terms), self_(terms, key, members), key_(key), root_(root), inputs_(members.size()) {}

  int rank() const override { return self_.rank(); }
  int size() const override { return self_.size(); }

  void all_gather(const void* shard, size_t shard_bytes, void* whole, const Tag& tag) override {
    gather(Collective::all_gather, shard, shard_bytes, whole, tag);
  }
  void exchange(const void* mine, size_t bytes, void* all, const Tag& tag) override {
    gather(Collective::exchange, mine, bytes, all, tag);
  }

  void reduce_scatter(const void* input, Dtype input_dtype, void* output, Dtype output_dtype, size_t count,
                      const ReduceOptions& options, const Tag& tag) override {
    const size_t in = width(input_dtype), out = width(output_dtype);
    self_.open({.collective = Collective::reduce_scatter,
                .tag = tag,
                .bytes = count * in,
                .input_dtype = input_dtype,
                .output_dtype = output_dtype});
    const size_t room = kChunkBytes / static_cast<size_t>(size()) / 64 * 64 / in;  // elements of one slice in a chunk
    begin();
    for (size_t done = 0; done < count; done += room) {
      const size_t part = std::min(room, count - done);
      std::byte* mine = chunk(rank());
      for (int r = 0; r < size(); ++r)
        device::copy_bytes(mine + static_cast<size_t>(r) * room * in,
                           at(input, (static_cast<size_t>(r) * count + done) * in), part * in, device::Store::kCached);
      next();
      for (int r = 0; r < size(); ++r)
        inputs_[static_cast<size_t>(r)] = last(r) + static_cast<size_t>(rank()) * room * in;
      add(input_dtype, at(output, done * out), output_dtype, part, options);
    }
    finish();
  }

  void all_reduce(const void* input, void* output, Dtype dtype, size_t count, const ReduceOptions& options,
                  const Tag& tag) override {
    const size_t element = width(dtype);
    self_.open({.collective = Collective::all_reduce,
                .tag = tag,
                .bytes = count * element,
                .input_dtype = dtype,
                .output_dtype = dtype});
    // Terms lie in the first half of a mailbox, this rank's part of the sums in the second.
    const size_t room = kChunkBytes / element;
    begin();
    for (size_t done = 0; done < count; done += room) {
      const size_t now = std::min(room, count - done);
      const size_t slice = (now + static_cast<size_t>(size()) - 1) / static_cast<size_t>(size()) + 15;
      const auto from = [&](int r) { return std::min(now, static_cast<size_t>(r) * (slice / 16 * 16)); };
      const auto end = [&](int r) { return r + 1 == size() ? now : from(r + 1); };
      device::copy_bytes(self_.mailbox(rank()), at(input, done * element), now * element, device::Store::kCached);
      turn();
      const size_t mine = from(rank()), part = end(rank()) - mine;
      std::byte* sums = self_.mailbox(rank()) + kChunkBytes + mine * element;
      for (int r = 0; r < size(); ++r) inputs_[static_cast<size_t>(r)] = self_.mailbox(r) + mine * element;
      if (options.add_to_output && part > 0)
        device::copy_bytes(sums, at(output, (done + mine) * element), part * element, device::Store::kCached);
      add(dtype, sums, dtype, part, options);
      turn();
      for (int r = 0; r < size(); ++r)
        device::copy_bytes(at(output, (done + from(r)) * element), self_.mailbox(r) + kChunkBytes + from(r) * element,
                           (end(r) - from(r)) * element, device::Store::kCached);
    }
    finish();
  }

  void broadcast(void* data, size_t bytes, int root, const Tag& tag) override {
    RESHARD_CHECK(root >= 0 && root < size(), "the root of a broadcast is a rank of the group");
    self_.open({.collective = Collective::broadcast,
                .root = root,
                .tag = tag,
                .bytes = bytes,
                .input_dtype = tag.dtype,
                .output_dtype = tag.dtype});
    begin();
    for (size_t done = 0; done < bytes; done += kChunkBytes) {
      const size_t part = std::min(kChunkBytes, bytes - done);
      if (rank() == root) device::copy_bytes(chunk(root), at(data, done), part, device::Store::kCached);
      next();
      if (rank() != root) device::copy_bytes(at(data, done), last(root), part, device::Store::kCached);
    }
    finish();
  }

  void barrier(const Tag& tag) override {
    self_.open({.collective = Collective::barrier, .tag = tag});
    begin();
    finish();
  }

  std::unique_ptr<Communicator> group(std::span<const int> ranks) override {
    std::vector<int> members;
    for (const int place : ranks) {
      RESHARD_CHECK(place >= 0 && place < size(), "a group's ranks are ranks of this one");
      members.push_back(self_.members()[static_cast<size_t>(place)]);
    }
    RESHARD_CHECK(std::find(members.begin(), members.end(), self_.terms().rank) != members.end(),
                  "a rank asks for groups that it is in");
    const uint64_t key = key_of(members, key_, groups_made_[members]++);
    return std::make_unique<WindowCommunicator>(terms_, key, members, false);
  }

  void fail(std::string_view message) noexcept override {
    self_.board().end(self_.failure(message));
    self_.board().seat(self_.terms().rank).ended.store(1, std::memory_order_release);
  }
  void interrupt(std::string_view message) noexcept override { self_.board().interrupt(self_.failure(message)); }
  bool interrupted() const override { return self_.board().failed(); }
  void check() const override {
    if (interrupted()) self_.board().raise(fmt::format("rank {}", self_.terms().rank));
  }
  void recover() override {
    RESHARD_CHECK(root_, "ranks recover together: on the communicator of all of them, from which groups were made");
    self_.recover();
  }
  void leave() noexcept override {
    Seat& seat = self_.board().seat(self_.terms().rank);
    seat.left.store(1, std::memory_order_release);
    seat.ended.store(1, std::memory_order_release);
  }

 private:
  void gather(Collective collective, const void* shard, size_t bytes, void* whole, const Tag& tag) {
    self_.open(
        {.collective = collective, .tag = tag, .bytes = bytes, .input_dtype = tag.dtype, .output_dtype = tag.dtype});
    std::byte* own = at(whole, static_cast<size_t>(rank()) * bytes);
    begin();
    for (size_t done = 0; done < bytes; done += kChunkBytes) {
      const size_t part = std::min(kChunkBytes, bytes - done);
      device::copy_bytes(chunk(rank()), at(shard, done), part, device::Store::kCached);
      next();
      for (int i = 1; i < size(); ++i) {
        const int r = (rank() + i) % size();
        device::copy_bytes(at(whole, static_cast<size_t>(r) * bytes + done), last(r), part, device::Store::kCached);
      }
    }
    finish();
    if (own != shard && bytes > 0) device::copy_bytes(own, shard, bytes, device::Store::kCached);
  }

  void add(Dtype input_dtype, void* output, Dtype output_dtype, size_t count, const ReduceOptions& options) {
    if (count == 0) return;
    tree_sum({.inputs = inputs_.data(),
              .input_dtype = input_dtype,
              .ranks = size(),
              .count = count,
              .output = output,
              .output_dtype = output_dtype,
              .options = options});
  }

  // The two halves of the mailboxes take turns: chunk() is written, and after next() it is last(), which others may
  // read until this rank has passed the next one.
  void begin() { turns_ = 0; }
  void turn() { self_.turn(), ++turns_; }
  void next() { turn(); }
  std::byte* chunk(int member) const { return self_.mailbox(member) + turns_ % 2 * kChunkBytes; }
  std::byte* last(int member) const { return self_.mailbox(member) + (turns_ - 1) % 2 * kChunkBytes; }
  // What a rank has said that it calls stays until all have compared it.
  void finish() {
    if (turns_ == 0) turn();
  }

  const std::shared_ptr<const Terms> terms_;
  Participant self_;
  const uint64_t key_;
  const bool root_;
  std::vector<const void*> inputs_;
  std::map<std::vector<int>, uint64_t> groups_made_;
  size_t turns_ = 0;
};

}  // namespace

std::unique_ptr<Communicator> make_window_communicator(std::shared_ptr<const Terms> terms) {
  std::vector<int> all(static_cast<size_t>(terms->board.ranks()));
  std::iota(all.begin(), all.end(), 0);
  return std::make_unique<WindowCommunicator>(terms, key_of(all, 0, 0), all, true);
}

}  // namespace reshard::comm::mpi
