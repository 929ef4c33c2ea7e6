#include "reshard/report.h"

namespace reshard {

const char* name(MemoryCategory category) {
  switch (category) {
    case MemoryCategory::sharded_parameters: return "sharded parameters";
    case MemoryCategory::whole_parameters: return "whole parameters";
    case MemoryCategory::gradients: return "gradients";
    case MemoryCategory::reduce_buffers: return "reduce buffers";
    case MemoryCategory::optimizer_state: return "optimizer state";
    case MemoryCategory::activations: return "activations";
  }
  return "";
}

}  // namespace reshard
