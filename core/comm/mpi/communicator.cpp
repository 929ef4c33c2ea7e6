#include "comm/mpi/communicator.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <new>
#include <numeric>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/math.h"
#include "comm/reduce.h"
#include "comm/mpi/meet.h"
#include "comm/mpi/member.h"
#include "comm/mpi/seat.h"
#include "device/device.h"

namespace reshard::comm::mpi {
namespace {

constexpr size_t kLine = 64;

size_t width(Dtype dtype) {
  return static_cast<size_t>(bytes_of(dtype));
}

const std::byte* at(const void* data, size_t byte) {
  return static_cast<const std::byte*>(data) + byte;
}

std::byte* at(void* data, size_t byte) {
  return static_cast<std::byte*>(data) + byte;
}

// Of a group that was made from another one by these places, for the n-th time.
uint64_t key_of(uint64_t parent, const std::vector<int>& places, uint64_t nth) {
  uint64_t key = parent;
  const auto mix = [&key](uint64_t value) {
    key = (key ^ (value + 0x9e3779b97f4a7c15)) * 0xff51afd7ed558ccd;
    key ^= key >> 32;
  };
  for (const int place : places) mix(static_cast<uint64_t>(place));
  mix(nth + 0x10000);
  return key == 0 ? 1 : key;
}

class HostsCommunicator final : public Communicator {
 public:
  HostsCommunicator(std::shared_ptr<Seat> seat, uint64_t key, std::vector<int> ranks, int place, bool root)
      : self_(std::move(seat), key, std::move(ranks), place), root_(root), inputs_(static_cast<size_t>(self_.size())) {}

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
    self_.open({.collective = Collective::reduce_scatter,
                .tag = tag,
                .bytes = count * width(input_dtype),
                .input_dtype = input_dtype,
                .output_dtype = output_dtype});
    const size_t in = width(input_dtype), out = width(output_dtype), most = part_bytes() / in;
    size_t begin = 0;
    do {
      const size_t here = std::min(most, count - begin);
      const Sum sum{here, input_dtype, output_dtype, at(output, begin * out)};
      add_parts([&](int r) { return at(input, (static_cast<size_t>(r) * count + begin) * in); }, sum, options);
      begin += here;
    } while (begin < count);
    self_.close();
  }

  void all_reduce(const void* input, void* output, Dtype dtype, size_t count, const ReduceOptions& options,
                  const Tag& tag) override {
    self_.open({.collective = Collective::all_reduce,
                .tag = tag,
                .bytes = count * width(dtype),
                .input_dtype = dtype,
                .output_dtype = dtype});
    if (count * width(dtype) <= kSmallBytes) {
      add_everything(input, output, dtype, count, options);
    } else {
      add_and_collect(input, output, dtype, count, options);
    }
    self_.close();
  }

  void broadcast(void* data, size_t bytes, int root, const Tag& tag) override {
    RESHARD_CHECK(root >= 0 && root < size(), "the root of a broadcast is a rank of the group");
    self_.open({.collective = Collective::broadcast,
                .root = root,
                .tag = tag,
                .bytes = bytes,
                .input_dtype = tag.dtype,
                .output_dtype = tag.dtype});
    const bool mine = rank() == root;
    size_t begin = 0;
    do {
      const size_t here = std::min(kBufferBytes, bytes - begin);
      if (mine && here > 0 && size() > 1) device::copy_bytes(self_.buffer(), at(data, begin), here);
      self_.post(Member::Parts::same_for_all, mine ? here : 0, 0);
      if (!mine && here > 0) device::copy_bytes(at(data, begin), self_.from(root), here);
      begin += here;
    } while (begin < bytes);
    self_.close();
  }

  void barrier(const Tag& tag) override {
    self_.open({.collective = Collective::barrier, .tag = tag});
    self_.post(Member::Parts::same_for_all, 0, 0);
    self_.close();
  }

  std::unique_ptr<Communicator> group(std::span<const int> ranks) override {
    const std::vector<int> places(ranks.begin(), ranks.end());
    const auto mine = std::find(places.begin(), places.end(), rank());
    RESHARD_CHECK(mine != places.end(), "a rank asks for groups that it is in");
    std::vector<int> sorted = places, members;
    std::sort(sorted.begin(), sorted.end());
    RESHARD_CHECK(sorted.front() >= 0 && sorted.back() < size(), "a group's ranks are ranks of this one");
    RESHARD_CHECK(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end(), "a rank is in a group once");
    for (const int place : places) members.push_back(self_.ranks()[static_cast<size_t>(place)]);
    const uint64_t key = key_of(self_.key(), places, groups_made_[places]++);
    return std::make_unique<HostsCommunicator>(self_.shared_seat(), key, std::move(members),
                                               static_cast<int>(mine - places.begin()), false);
  }

  void fail(std::string_view message) noexcept override {
    self_.seat().end(cause(message));
    self_.seat().tell_ended();
  }
  void interrupt(std::string_view message) noexcept override { self_.seat().interrupt(cause(message)); }

  bool interrupted() const override { return self_.seat().board().is_set(); }

  void check() const override {
    if (interrupted()) self_.seat().board().raise("rank " + std::to_string(self_.seat().rank()));
  }

  void recover() override {
    RESHARD_CHECK(root_, "ranks recover together: on the communicator of all of them, from which groups were made");
    self_.seat().recover();
  }

  void leave() noexcept override { self_.seat().leave(); }

 private:
  static constexpr size_t kSmallBytes = 16384;

  // One post's sum: how many values, and where they go.
  struct Sum {
    size_t count = 0;
    Dtype input_dtype = Dtype::fp32, output_dtype = Dtype::fp32;
    void* output = nullptr;
  };

  // Of a buffer that has a part for each rank.
  size_t part_bytes() const { return kBufferBytes / static_cast<size_t>(size()) / kLine * kLine; }

  Cause cause(std::string_view message) const {
    const int rank = self_.seat().rank();
    return {.code = ErrorCode::rank_failed,
            .what = self_.seat().name(rank) + " failed: " + std::string(message),
            .remedy = "mend what ended rank " + std::to_string(rank)};
  }

  void gather(Collective collective, const void* shard, size_t bytes, void* whole, const Tag& tag) {
    self_.open(
        {.collective = collective, .tag = tag, .bytes = bytes, .input_dtype = tag.dtype, .output_dtype = tag.dtype});
    const auto place = [&](int r) { return at(whole, static_cast<size_t>(r) * bytes); };
    if (place(rank()) != shard) device::copy_bytes(place(rank()), shard, bytes, store_for(bytes));
    const device::Store store = store_for(bytes * static_cast<size_t>(size()));
    size_t begin = 0;
    do {
      const size_t here = std::min(kBufferBytes, bytes - begin);
      if (here > 0 && size() > 1) device::copy_bytes(self_.buffer(), at(shard, begin), here);
      self_.post(Member::Parts::same_for_all, here, 0);
      for (int i = 1; here > 0 && i < size(); ++i) {
        const int r = (rank() + i) % size();
        device::copy_bytes(place(r) + begin, self_.from(r), here, store);
      }
      begin += here;
    } while (begin < bytes);
    self_.close();
  }

  // Every rank shows each other one that one's slice, part_of(r), and adds up what it is shown.
  template <class PartOf>
  void add_parts(const PartOf& part_of, const Sum& sum, const ReduceOptions& options) {
    const size_t bytes = sum.count * width(sum.input_dtype);
    const auto stride = static_cast<size_t>(base::round_up(static_cast<int64_t>(bytes), int64_t{kLine}));
    for (int i = 1; bytes > 0 && i < size(); ++i) {
      const int r = (rank() + i) % size();
      device::copy_bytes(self_.buffer() + static_cast<size_t>(r) * stride, part_of(r), bytes);
    }
    self_.post(Member::Parts::one_for_each, bytes, stride);
    if (bytes == 0) return;
    for (int r = 0; r < size(); ++r) inputs_[static_cast<size_t>(r)] = r == rank() ? part_of(r) : self_.from(r);
    add(sum, options);
  }

  void add(const Sum& sum, const ReduceOptions& options) {
    tree_sum({.inputs = inputs_.data(),
              .input_dtype = sum.input_dtype,
              .ranks = size(),
              .count = sum.count,
              .output = sum.output,
              .output_dtype = sum.output_dtype,
              .options = options});
  }

  // Every rank adds all values by itself: meeting once is what counts for few of them.
  void add_everything(const void* input, void* output, Dtype dtype, size_t count, const ReduceOptions& options) {
    const size_t bytes = count * width(dtype);
    if (bytes > 0 && size() > 1) device::copy_bytes(self_.buffer(), input, bytes);
    self_.post(Member::Parts::same_for_all, bytes, 0);
    if (bytes == 0) return;
    for (int r = 0; r < size(); ++r) inputs_[static_cast<size_t>(r)] = r == rank() ? at(input, 0) : self_.from(r);
    add({count, dtype, dtype, output}, options);
  }

  // A piece at a time: a reduce-scatter of it, then an all-gather of the sums.
  void add_and_collect(const void* input, void* output, Dtype dtype, size_t count, const ReduceOptions& options) {
    const size_t wide = width(dtype), ranks = static_cast<size_t>(size()), line = kLine / wide;
    for (size_t begin = 0; begin < count;) {
      const size_t left = count - begin, even = (left + ranks - 1) / ranks;
      const size_t most = std::min(part_bytes() / wide, (even + line - 1) / line * line);
      const auto first = [&](int r) { return begin + std::min(left, static_cast<size_t>(r) * most); };
      const auto length = [&](int r) { return first(r + 1) - first(r); };
      add_piece([&](int r) { return at(input, first(r) * wide); }, length,
                {length(rank()), dtype, dtype, at(output, first(rank()) * wide)}, options);
      if (length(rank()) > 0 && size() > 1)
        device::copy_bytes(self_.buffer(), at(output, first(rank()) * wide), length(rank()) * wide);
      self_.post(Member::Parts::same_for_all, length(rank()) * wide, 0);
      for (int i = 1; i < size(); ++i) {
        const int r = (rank() + i) % size();
        if (length(r) > 0) device::copy_bytes(at(output, first(r) * wide), self_.from(r), length(r) * wide);
      }
      begin = first(size());
    }
  }

  // As add_parts, for parts of which the last ones may be shorter.
  template <class PartOf, class Length>
  void add_piece(const PartOf& part_of, const Length& length, const Sum& sum, const ReduceOptions& options) {
    const size_t wide = width(sum.input_dtype), stride = (length(0) * wide + kLine - 1) / kLine * kLine;
    for (int i = 1; i < size(); ++i) {
      const int r = (rank() + i) % size();
      if (length(r) > 0)
        device::copy_bytes(self_.buffer() + static_cast<size_t>(r) * stride, part_of(r), length(r) * wide);
    }
    self_.post(Member::Parts::one_for_each, length(0) * wide, stride);
    if (sum.count == 0) return;
    for (int r = 0; r < size(); ++r) inputs_[static_cast<size_t>(r)] = r == rank() ? part_of(r) : self_.from(r);
    add(sum, options);
  }

  // Stores past the caches pay where all ranks together write more than the caches keep.
  device::Store store_for(size_t bytes_per_rank) const {
    const bool large = bytes_per_rank * static_cast<size_t>(size()) >= self_.seat().streaming_bytes();
    return large ? device::Store::kStreaming : device::Store::kCached;
  }

  Member self_;
  const bool root_;
  std::vector<const void*> inputs_;                   // the ranks' inputs of the running reduction
  std::map<std::vector<int>, uint64_t> groups_made_;  // how often this rank asked for these
};

std::unique_ptr<Communicator> of_all(const std::shared_ptr<Seat>& seat) {
  std::vector<int> all(static_cast<size_t>(seat->size()));
  std::iota(all.begin(), all.end(), 0);
  return std::make_unique<HostsCommunicator>(seat, 1, std::move(all), seat->rank(), true);
}

class HostProcesses final : public Processes {
 public:
  explicit HostProcesses(const SeatOptions& options)
      : timeout_seconds_(options.timeout_seconds), seat_(std::make_shared<Seat>(options)) {}

  std::unique_ptr<Communicator> communicator() override { return of_all(seat_); }

  std::string host(int rank) const override { return seat_->host(rank); }
  bool wait_for_all() override { return seat_->wait_until_all_are_done(timeout_seconds_); }

  bool is_first_of_ended() const override {
    for (int rank = 0; rank < seat_->rank(); ++rank)
      if (seat_->is_done(rank)) return false;
    return true;
  }

 private:
  const double timeout_seconds_;
  const std::shared_ptr<Seat> seat_;
};

}  // namespace

std::unique_ptr<Processes> start(const SeatOptions& options) {
  return std::make_unique<HostProcesses>(options);
}

size_t memory_bytes(int ranks) {
  return static_cast<size_t>(ranks) * kWindowBytes;
}

void prepare(void* memory, int ranks) {
  for (int rank = 0; rank < ranks; ++rank) new (at(memory, static_cast<size_t>(rank) * kWindowBytes)) Area;
}

std::unique_ptr<Communicator> communicator_in(void* memory, int rank, const SeatOptions& options) {
  return of_all(std::make_shared<Seat>(memory, rank, options));
}

}  // namespace reshard::comm::mpi
