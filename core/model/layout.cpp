#include "model/layout.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "base/math.h"

namespace reshard::model {
namespace {

std::vector<Piece> pieces_of(const UnitSpec& unit) {
  std::vector<Piece> pieces;
  for (const Parameter& parameter : unit.parameters) {
    Piece piece{.elements = parameter.elements(), .trainable = parameter.trainable, .block = parameter.block};
    if (parameter.block == Parameter::kUncut) piece.block = piece.elements;
    for (std::size_t other = 0; other < pieces.size() && !parameter.same_as.empty(); ++other)
      if (unit.parameters[other].name == parameter.same_as) piece.same_as = static_cast<int>(other);
    pieces.push_back(piece);
  }
  return pieces;
}

std::vector<Piece> pieces_of(std::span<const int64_t> elements) {
  std::vector<Piece> pieces;
  for (const int64_t count : elements) pieces.push_back({.elements = count});
  return pieces;
}

// The first place from `from` on where no border between shards cuts the piece but at its blocks. REQUIRES: shards are a
// multiple of the block where the piece is longer than it.
int64_t uncut_place(const Piece& piece, int64_t from, int64_t shard_elements) {
  const int64_t border = (from / shard_elements + 1) * shard_elements;
  if (from + piece.elements <= border) return from;
  const int64_t grid = std::lcm(piece.block, kBlock);
  if (piece.block >= piece.elements) return border;
  return border - (border - from) / grid * grid;
}

}  // namespace

Layout::Layout(std::span<const Piece> pieces, int shards) : shards_(shards), pieces_(pieces.begin(), pieces.end()) {
  RESHARD_CHECK(shards >= 1, "a unit is laid out over at least one shard");
  for (const Piece& piece : pieces_)
    RESHARD_CHECK(piece.elements >= 1 && piece.block >= 1, "a parameter has at least one element");
  offsets_.resize(pieces_.size());
  sections_[0] = place(true);
  sections_[1] = place(false);
  sections_[1].shard_offset = sections_[0].shard_elements;
  sections_[1].whole_offset = sections_[0].shard_elements * shards_;
  for (std::size_t p = 0; p < pieces_.size(); ++p) {
    if (!pieces_[p].trainable) offsets_[p] += sections_[1].whole_offset;
    if (pieces_[p].same_as >= 0) offsets_[p] = offsets_[static_cast<std::size_t>(pieces_[p].same_as)];
  }
}

Layout::Layout(const UnitSpec& unit, int shards) : Layout(pieces_of(unit), shards) {}
Layout::Layout(std::span<const int64_t> parameter_elements, int shards)
    : Layout(pieces_of(parameter_elements), shards) {}

// The shards are as short as the parameters' wishes allow, to within a 64th.
Section Layout::place(bool trainable) {
  int64_t longest_uncut = 0, grid = kBlock;
  for (const Piece& piece : pieces_) {
    if (piece.trainable != trainable || piece.same_as >= 0 || piece.block == 1) continue;
    if (piece.block >= piece.elements)
      longest_uncut = std::max(longest_uncut, piece.elements);
    else
      grid = std::lcm(grid, piece.block);
  }
  const int64_t least = base::ceil_div(place(trainable, 0), shards_);
  int64_t shard = base::round_up(std::max(least, longest_uncut), grid);
  const int64_t growth = base::round_up(std::max<int64_t>(1, least / kBlock), grid);
  if (shards_ > 1 && (longest_uncut > 0 || grid > kBlock))
    while (place(trainable, shard) > shard * shards_) shard += growth;
  return {.shard_elements = shard, .shard_offset = 0, .whole_offset = 0};
}

// Lays a section's pieces out for shards of that size (0: whatever the shards are) and returns where they end.
int64_t Layout::place(bool trainable, int64_t shard_elements) {
  int64_t end = 0;
  for (std::size_t p = 0; p < pieces_.size(); ++p) {
    const Piece& piece = pieces_[p];
    if (piece.trainable != trainable || piece.same_as >= 0) continue;
    offsets_[p] = base::round_up(end, kBlock);
    if (shard_elements > 0 && piece.block > 1) offsets_[p] = uncut_place(piece, offsets_[p], shard_elements);
    end = offsets_[p] + piece.elements;
  }
  return base::round_up(end, kBlock);
}

std::vector<Fragment> Layout::fragments(int shard) const {
  std::vector<Fragment> found;
  for (const bool trainable : {true, false}) {
    const Section& section = sections_[trainable ? 0 : 1];
    const int64_t begin = section.whole_offset + shard * section.shard_elements, end = begin + section.shard_elements;
    for (int p = 0; p < parameter_count(); ++p) {
      const Piece& piece = pieces_[static_cast<std::size_t>(p)];
      if (piece.trainable != trainable || piece.same_as >= 0) continue;
      const int64_t from = std::max(begin, offset(p)), to = std::min(end, offset(p) + elements(p));
      if (from < to)
        found.push_back({.parameter = p,
                         .offset = from - offset(p),
                         .length = to - from,
                         .shard_offset = section.shard_offset + from - begin});
    }
  }
  return found;
}

}  // namespace reshard::model
