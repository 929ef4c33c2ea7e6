#pragma once

// What the training program tells the runtime. `explain` and the tests feed the same hooks to the same scheduler.

#include <cstdint>

namespace reshard::schedule {

enum class Hook : uint8_t {
  begin_step,
  begin_micro_batch,
  before_forward,
  after_forward,
  before_backward,
  after_backward,
  reduce,            // the last micro-batch is over: whatever is not reduced yet is
  update,            // the optimizer runs; nothing is whole afterwards
  end_step,
  begin_evaluation,  // a forward-only pass, between steps
  end_evaluation,
  before_read,       // the program reads a unit outside of its hooks, between steps
  after_read,
  release,           // frees every whole copy, between steps: before saving or switching
  abandon,           // an exception: back to sharded, pending gradients are dropped
};

const char* name(Hook hook);  // "before forward", …

}  // namespace reshard::schedule
