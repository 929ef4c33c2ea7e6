#pragma once

// An fp32 unit whose parameters are all trainable, or all frozen: what most tests of the scheduler need.

#include <cstdint>

#include "schedule/scheduler.h"

namespace reshard::schedule {

inline ScheduledUnit plain_unit(const Decision& decision, int64_t shard_bytes, bool trainable = true,
                                int64_t saved_bytes = 0) {
  return {.decision = decision,
          .shard_bytes = shard_bytes,
          .copy_bytes = shard_bytes,
          .gradient_bytes = trainable ? shard_bytes : 0,
          .reduced_bytes = trainable ? shard_bytes : 0,
          .saved_bytes = saved_bytes};
}

}  // namespace reshard::schedule
