#pragma once

// What one rank calls: compared among the members of a group, and how errors speak of it.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "comm/communicator.h"

namespace reshard::comm {

enum class Collective : uint8_t { all_gather, reduce_scatter, all_reduce, broadcast, barrier, exchange };

// One rank's side of a collective.
struct Call {
  Collective collective = Collective::barrier;
  int root = 0;  // of a broadcast
  Tag tag;
  size_t bytes = 0;  // as the collective counts them; equal on all ranks
  std::optional<Dtype> input_dtype = {}, output_dtype = {};
  const void* input = nullptr;
  void* output = nullptr;
};

// "all-gather of unit h.3", "exchange of gradient norm", "barrier".
std::string text(const Call& call);

// "all-gather of unit h.3 (64 bytes, fp32)", a broadcast's root in front of the bytes.
std::string full_text(const Call& call);

// Whether two members are in the same collective.
bool same(const Call& a, const Call& b);

}  // namespace reshard::comm
