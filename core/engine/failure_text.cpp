#include "engine/failure_text.h"

namespace reshard::engine {

std::string failure_text(const std::exception_ptr& failure) {
  if (failure == nullptr) return "it gave the step up";
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception of an unknown type";
  }
}

}  // namespace reshard::engine
