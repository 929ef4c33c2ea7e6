#include "comm/local/local.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/math.h"
#include "comm/reduce.h"
#include "comm/local/rendezvous.h"
#include "device/device.h"

namespace reshard::comm {
namespace {

const std::byte* from_element(const void* data, size_t element, size_t width) {
  return static_cast<const std::byte*>(data) + element * width;
}

std::byte* from_element(void* data, size_t element, size_t width) {
  return static_cast<std::byte*>(data) + element * width;
}

size_t width(Dtype dtype) {
  return static_cast<size_t>(bytes_of(dtype));
}

bool overlap(const void* a, size_t a_bytes, const void* b, size_t b_bytes) {
  const auto first = reinterpret_cast<uintptr_t>(a), second = reinterpret_cast<uintptr_t>(b);
  return first < second + b_bytes && second < first + a_bytes;
}

class LocalCommunicator final : public Communicator {
 public:
  LocalCommunicator(std::shared_ptr<Rendezvous> rendezvous, int rank, bool root)
      : self_(std::move(rendezvous), rank), root_(root), inputs_(static_cast<size_t>(self_.size())) {}

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
    const size_t bytes = count * width(input_dtype);
    RESHARD_CHECK(input_dtype == output_dtype ||
                      !overlap(input, bytes * static_cast<size_t>(size()), output, count * width(output_dtype)),
                  "a reduce-scatter into another format is not in place");
    self_.open({.collective = Collective::reduce_scatter,
                .tag = tag,
                .bytes = bytes,
                .input_dtype = input_dtype,
                .output_dtype = output_dtype,
                .input = input,
                .output = output});
    add_slice({.begin = static_cast<size_t>(rank()) * count,
               .count = count,
               .output = output,
               .input_dtype = input_dtype,
               .output_dtype = output_dtype},
              options);
    self_.close();
  }

  void all_reduce(const void* input, void* output, Dtype dtype, size_t count, const ReduceOptions& options,
                  const Tag& tag) override {
    self_.open({.collective = Collective::all_reduce,
                .tag = tag,
                .bytes = count * width(dtype),
                .input_dtype = dtype,
                .output_dtype = dtype,
                .input = input,
                .output = output});
    count <= kSmall ? add_everything(input, output, dtype, count, options)
                    : add_and_collect(output, dtype, count, options);
  }

  void broadcast(void* data, size_t bytes, int root, const Tag& tag) override {
    RESHARD_CHECK(root >= 0 && root < size(), "the root of a broadcast is a rank of the group");
    self_.open({.collective = Collective::broadcast,
                .root = root,
                .tag = tag,
                .bytes = bytes,
                .input_dtype = tag.dtype,
                .output_dtype = tag.dtype,
                .input = data});
    if (rank() != root) device::copy_bytes(data, self_.peer(root).input, bytes, store_for(bytes));
    self_.close();
  }

  void barrier(const Tag& tag) override {
    self_.open({.collective = Collective::barrier, .tag = tag});
    self_.close();
  }

  std::unique_ptr<Communicator> group(std::span<const int> ranks) override {
    const std::vector<int> places(ranks.begin(), ranks.end());
    const auto mine = std::find(places.begin(), places.end(), rank());
    RESHARD_CHECK(mine != places.end(), "a rank asks for groups that it is in");
    std::vector<int> sorted = places;
    std::sort(sorted.begin(), sorted.end());
    RESHARD_CHECK(sorted.front() >= 0 && sorted.back() < size(), "a group's ranks are ranks of this one");
    RESHARD_CHECK(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end(), "a rank is in a group once");
    std::shared_ptr<Rendezvous> group = self_.rendezvous().group(places, groups_made_[places]++);
    return std::make_unique<LocalCommunicator>(std::move(group), static_cast<int>(mine - places.begin()), false);
  }

  void fail(std::string_view message) noexcept override { self_.fail(message); }
  void interrupt(std::string_view message) noexcept override { self_.interrupt(message); }
  bool interrupted() const override { return self_.interrupted(); }
  void check() const override { self_.check(); }

  void recover() override {
    RESHARD_CHECK(root_, "ranks recover together: on the communicator of all of them, from which groups were made");
    self_.recover();
  }

  void leave() noexcept override { self_.leave(); }

 private:
  // Each rank begins with its own shard and goes round, so that not all read the same memory first.
  void gather(Collective collective, const void* shard, size_t bytes, void* whole, const Tag& tag) {
    self_.open({.collective = collective,
                .tag = tag,
                .bytes = bytes,
                .input_dtype = tag.dtype,
                .output_dtype = tag.dtype,
                .input = shard,
                .output = whole});
    const device::Store store = store_for(bytes * static_cast<size_t>(size()));
    auto* to = static_cast<std::byte*>(whole);
    for (int i = 0; i < size(); ++i) {
      const int r = (rank() + i) % size();
      std::byte* place = to + static_cast<size_t>(r) * bytes;
      if (place != self_.peer(r).input) device::copy_bytes(place, self_.peer(r).input, bytes, store);
    }
    self_.close();
  }

  // Every rank adds all values by itself: meeting twice instead of three times is what counts for few of them.
  void add_everything(const void* input, void* output, Dtype dtype, size_t count, const ReduceOptions& options) {
    alignas(64) std::byte sum[kSmall * sizeof(float)];
    const bool in_place = input == output;  // then others still read it
    add_slice({.count = count, .output = in_place ? sum : output, .input_dtype = dtype, .output_dtype = dtype},
              options);
    self_.close();
    if (in_place) device::copy_bytes(output, sum, count * width(dtype));
  }

  // A reduce-scatter of slices that lie in place, then an all-gather of them.
  void add_and_collect(void* output, Dtype dtype, size_t count, const ReduceOptions& options) {
    const auto line = static_cast<int64_t>(64 / width(dtype));
    const auto slice = static_cast<size_t>(base::round_up(base::ceil_div(static_cast<int64_t>(count), size()), line));
    const auto begin = [&](int r) { return std::min(count, static_cast<size_t>(r) * slice); };
    add_slice({.begin = begin(rank()),
               .count = begin(rank() + 1) - begin(rank()),
               .output = from_element(output, begin(rank()), width(dtype)),
               .input_dtype = dtype,
               .output_dtype = dtype},
              options);
    self_.turn();
    const device::Store store = store_for(count * width(dtype));
    for (int i = 1; i < size(); ++i) {
      const int r = (rank() + i) % size();
      device::copy_bytes(from_element(output, begin(r), width(dtype)),
                         from_element(self_.peer(r).output, begin(r), width(dtype)),
                         (begin(r + 1) - begin(r)) * width(dtype), store);
    }
    self_.close();
  }

  // Stores past the caches pay where all ranks together write more than the caches keep.
  device::Store store_for(size_t bytes_per_rank) const {
    const bool large = bytes_per_rank * static_cast<size_t>(size()) >= self_.terms().streaming_bytes;
    return large ? device::Store::kStreaming : device::Store::kCached;
  }

  // The elements of all ranks' inputs from `begin` on, and where their sums go.
  struct Slice {
    size_t begin = 0, count = 0;
    void* output = nullptr;
    Dtype input_dtype = Dtype::fp32, output_dtype = Dtype::fp32;
  };

  void add_slice(const Slice& slice, const ReduceOptions& options) {
    if (slice.count == 0) return;
    for (int r = 0; r < size(); ++r) {
      inputs_[static_cast<size_t>(r)] = from_element(self_.peer(r).input, slice.begin, width(slice.input_dtype));
    }
    const size_t bytes = slice.count * width(slice.output_dtype);
    tree_sum({.inputs = inputs_.data(),
              .input_dtype = slice.input_dtype,
              .ranks = size(),
              .count = slice.count,
              .output = slice.output,
              .output_dtype = slice.output_dtype,
              .options = options,
              .store = options.add_to_output ? device::Store::kCached : store_for(bytes)});
  }

  static constexpr size_t kSmall = 1024;  // values

  Participant self_;
  const bool root_;
  std::vector<const void*> inputs_;                   // the ranks' inputs of the running reduction
  std::map<std::vector<int>, uint64_t> groups_made_;  // how often this rank asked for these
};

}  // namespace

LocalRanks::LocalRanks(const LocalOptions& options) {
  RESHARD_CHECK(options.ranks >= 1 && options.threads_per_rank >= 1, "there is at least one rank, of one thread");
  auto terms = std::make_shared<Terms>(options.ranks, options.threads_per_rank);
  terms->patience = device::Patience::of(options.ranks * options.threads_per_rank);
  terms->timeout_seconds = options.timeout_seconds;
  terms->streaming_bytes = options.streaming_bytes == 0 ? device::streaming_bytes() : options.streaming_bytes;
  std::vector<int> members(static_cast<size_t>(options.ranks));
  std::iota(members.begin(), members.end(), 0);
  all_ = Rendezvous::make(std::move(terms), std::move(members));
}

LocalRanks::~LocalRanks() = default;

std::unique_ptr<Communicator> LocalRanks::communicator(int rank) {
  RESHARD_CHECK(rank >= 0 && rank < all_->size(), "the rank is one of these ranks");
  return std::make_unique<LocalCommunicator>(all_, rank, true);
}

}  // namespace reshard::comm
