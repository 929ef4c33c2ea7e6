#pragma once

// What the training program tells the runtime. `explain` and the tests feed the same hooks to the same scheduler.

#include <cstdint>

namespace reshard::schedule {

enum class Hook : uint8_t {
  begin_step,
  begin_micro_batch,  // the next one; those before are over
  enter_micro_batch,  // one of several in flight, by its number: begun if new, and what the hooks are about from here on
  before_forward,
  after_forward,
  before_backward,
  after_backward,
  reduce,            // the last micro-batch is over: whatever is not reduced yet is
  update,            // the optimizer runs; nothing is whole afterwards
  skip,              // in place of update: this step's gradients are dropped
  carry,             // in place of update: this step's gradients are kept and added to the next step's
  end_step,
  begin_evaluation,  // a forward-only pass, between steps
  end_evaluation,
  before_read,       // the program reads or writes a unit's fp32 values outside of its hooks, between steps
  after_read,
  release,           // frees every whole copy, between steps: before saving or switching
  drop_carried,      // gradients carried over from earlier steps are dropped, between steps
  abandon,           // an exception: back to sharded, this step's gradients are dropped
};

// Whether the number that comes with the hook is a unit's; enter_micro_batch comes with its micro-batch's.
constexpr bool about_unit(Hook hook) {
  return hook != Hook::enter_micro_batch;
}

const char* name(Hook hook);  // "before forward", …

}  // namespace reshard::schedule
