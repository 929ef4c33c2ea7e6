#pragma once

// Where every element of a unit lies: one pure function of (parameter sizes, shard count). Everybody else asks it.
//
//   parameters   | qkv.weight ......... | qkv.bias .. | proj.weight ........ | pad |
//   shards       | rank 0        | rank 1        | rank 2        | rank 3        |      equal, multiples of 64 elements
//
// Every parameter starts at a multiple of 64 elements, in an order and at offsets that do not depend on the shard count;
// only the padding at the end does. A parameter may straddle shards: a rank holds fragments. Gaps and the tail are zero.
// All figures are in elements; bytes are elements × the dtype's size.

#include <cstdint>
#include <span>
#include <vector>

namespace reshard::model {

inline constexpr int64_t kBlock = 64;  // elements: 128 bytes in bf16, a cache line's multiple in every dtype

// A contiguous run of one parameter inside one shard.
struct Fragment {
  int parameter = 0;          // index in the unit
  int64_t offset = 0;         // in the parameter
  int64_t length = 0;         // > 0
  int64_t shard_offset = 0;   // in the shard
};

class Layout {
 public:
  // REQUIRES: every size >= 1, shards >= 1. No parameters at all is an ordinary input: everything is then 0.
  Layout(std::span<const int64_t> parameter_elements, int shards);

  int shards() const { return shards_; }
  int64_t shard_elements() const { return shard_elements_; }
  int64_t whole_elements() const { return shard_elements_ * shards_; }
  int64_t offset(int parameter) const { return offsets_[static_cast<std::size_t>(parameter)]; }
  int64_t elements(int parameter) const { return elements_[static_cast<std::size_t>(parameter)]; }
  int parameter_count() const { return static_cast<int>(offsets_.size()); }

  // The runs of parameters in one shard, in rising order; empty when the shard is padding only.
  std::vector<Fragment> fragments(int shard) const;

 private:
  int shards_;
  int64_t shard_elements_ = 0;
  std::vector<int64_t> elements_, offsets_;
};

}  // namespace reshard::model
