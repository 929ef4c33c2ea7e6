#pragma once

// Where every element of a unit lies: one pure function of (parameters, shard count). Everybody else asks it.
//
//   parameters   | qkv.weight ......... | qkv.bias .. | proj.weight ........ | pad |
//   shards       | rank 0        | rank 1        | rank 2        | rank 3        |      equal, multiples of 64 elements
//
// Every parameter starts at a multiple of 64 elements. A parameter may straddle shards: a rank holds fragments. Gaps and
// the tail are zero. All figures are in elements; bytes are elements × the dtype's size.
//
// A unit with trainable and frozen parameters has two sections, the trainable one first, and each is cut into equal
// shards of its own. So gradients, their reduction and the optimizer's state cover the trainable section alone, evenly
// over the ranks:
//
//   whole        | trainable: rank 0 | rank 1 | rank 2 || frozen: rank 0 | rank 1 | rank 2 |
//   rank 1       | trainable shard | frozen shard |
//
// Offsets do not depend on the shard count, unless a parameter asks not to be cut (Parameter::block): then padding
// before it moves it to where the borders of shards suit it.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "reshard/model.h"

namespace reshard::model {

inline constexpr int64_t kBlock = 64;  // elements: 128 bytes in bf16, a cache line's multiple in every dtype

// What the layout needs to know of a parameter.
struct Piece {
  int64_t elements = 0;   // >= 1
  bool trainable = true;
  int64_t block = 1;      // cut at multiples of so many elements only; >= elements: not at all
  int same_as = -1;       // an earlier piece whose memory this one shares
};

// A contiguous run of one parameter inside one shard.
struct Fragment {
  int parameter = 0;          // index in the unit
  int64_t offset = 0;         // in the parameter
  int64_t length = 0;         // > 0
  int64_t shard_offset = 0;   // in the shard
};

// A part of a unit that is cut into equal shards by itself.
struct Section {
  int64_t shard_elements = 0;  // of one rank; 0: the unit has no such parameters
  int64_t shard_offset = 0;    // in a rank's shard
  int64_t whole_offset = 0;    // in the whole unit
};

class Layout {
 public:
  // REQUIRES: every size >= 1, shards >= 1. No parameters at all is an ordinary input: everything is then 0.
  Layout(std::span<const Piece> pieces, int shards);
  Layout(const UnitSpec& unit, int shards);
  // Trainable, cut anywhere.
  Layout(std::span<const int64_t> parameter_elements, int shards);

  int shards() const { return shards_; }
  int64_t shard_elements() const { return trainable().shard_elements + frozen().shard_elements; }
  int64_t whole_elements() const { return shard_elements() * shards_; }
  int64_t offset(int parameter) const { return offsets_[static_cast<std::size_t>(parameter)]; }  // in the whole
  int64_t elements(int parameter) const { return pieces_[static_cast<std::size_t>(parameter)].elements; }
  int parameter_count() const { return static_cast<int>(pieces_.size()); }

  // The trainable section begins at 0 in the shard and in the whole; a gradient has its length and its offsets.
  const Section& trainable() const { return sections_[0]; }
  const Section& frozen() const { return sections_[1]; }
  const std::array<Section, 2>& sections() const { return sections_; }

  // The runs of parameters in one shard, in rising order; empty when the shard is padding only. A shared memory occurs
  // once, under its first parameter.
  std::vector<Fragment> fragments(int shard) const;

 private:
  Section place(bool trainable);
  int64_t place(bool trainable, int64_t shard_elements);

  int shards_;
  std::vector<Piece> pieces_;
  std::vector<int64_t> offsets_;
  std::array<Section, 2> sections_;
};

}  // namespace reshard::model
