#include "reshard/decision.h"

namespace reshard {

const char* name(Field field) {
  switch (field) {
    case Field::after_forward: return "after_forward";
    case Field::after_backward: return "after_backward";
    case Field::reduce: return "reduce";
    case Field::prefetch_forward: return "prefetch_forward";
    case Field::prefetch_backward: return "prefetch_backward";
  }
  return "";
}

std::string value_text(AfterForward value) {
  switch (value.kind) {
    case AfterForward::Kind::free: return "free";
    case AfterForward::Kind::keep: return "keep";
    case AfterForward::Kind::shrink: return std::to_string(value.ranks);
  }
  return "";
}

const char* value_text(AfterBackward value) {
  return value == AfterBackward::free ? "free" : "keep";
}
const char* value_text(Reduce value) {
  return value == Reduce::each ? "each" : "last";
}
const char* value_text(AllReduce value) {
  return value == AllReduce::each ? "each" : "last";
}
const char* value_text(BackwardOrder value) {
  switch (value) {
    case BackwardOrder::micro_batch: return "micro_batch";
    case BackwardOrder::since_backward: return "since_backward";
    case BackwardOrder::since_step: return "since_step";
  }
  return "";
}

std::string value_text(const Decision& decision, Field field) {
  switch (field) {
    case Field::after_forward: return value_text(decision.after_forward);
    case Field::after_backward: return value_text(decision.after_backward);
    case Field::reduce: return value_text(decision.reduce);
    case Field::prefetch_forward: return std::to_string(decision.prefetch_forward);
    case Field::prefetch_backward: return std::to_string(decision.prefetch_backward);
  }
  return "";
}

}  // namespace reshard
