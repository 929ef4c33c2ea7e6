#include "model/layout.h"

#include <algorithm>

#include "base/check.h"
#include "base/math.h"

namespace reshard::model {

Layout::Layout(std::span<const int64_t> parameter_elements, int shards)
    : shards_(shards), elements_(parameter_elements.begin(), parameter_elements.end()) {
  RESHARD_CHECK(shards >= 1, "a unit is laid out over at least one shard");
  int64_t end = 0;
  for (const int64_t elements : elements_) {
    RESHARD_CHECK(elements >= 1, "a parameter has at least one element");
    offsets_.push_back(end);
    end += base::round_up(elements, kBlock);
  }
  shard_elements_ = base::round_up(base::ceil_div(end, shards), kBlock);
  RESHARD_CHECK(whole_elements() >= end, "the shards together hold every parameter");
}

std::vector<Fragment> Layout::fragments(int shard) const {
  std::vector<Fragment> found;
  const int64_t begin = shard * shard_elements_, end = begin + shard_elements_;
  for (int p = 0; p < parameter_count(); ++p) {
    const int64_t from = std::max(begin, offset(p)), to = std::min(end, offset(p) + elements(p));
    if (from < to)
      found.push_back({.parameter = p, .offset = from - offset(p), .length = to - from, .shard_offset = from - begin});
  }
  return found;
}

}  // namespace reshard::model
