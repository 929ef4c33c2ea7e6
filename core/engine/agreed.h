#pragma once

// What all ranks must have in common before step 1. Every rank decides for itself from the same facts: one with another
// job, or with another file under the plugin's name, would hang the others later. Threads: values only.

#include <span>

#include "engine/planning.h"
#include "reshard/optimizer.h"

namespace reshard::engine {

// Exchanged as plain bytes; the texts end with NUL.
struct Agreed {
  char strategy[64] = {};
  char sha256[65] = {};
  char abi[16] = {};
  char options[17] = {};  // a fingerprint of the options after defaults
  char plan[17] = {};
  char job[17] = {};    // a fingerprint of every key but [plugins], which is about this rank's machine
  char model[17] = {};  // a fingerprint of all that the model declares
  char optimizer[17] = {};  // a fingerprint of its name and its states' names, in their order
};

Agreed agreed_of(const Job& job, const Model& model, const Optimizer& optimizer, const PlannedStrategy& planned);

// Throws Error(plan) naming the first rank that differs from rank 0, and all that differs.
void check_agreed(std::span<const Agreed> all);

}  // namespace reshard::engine
