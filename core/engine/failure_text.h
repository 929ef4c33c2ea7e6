#pragma once

// What an exception says, for the ranks that did not throw it.

#include <exception>
#include <string>

namespace reshard::engine {

// Null: "it gave the step up".
std::string failure_text(const std::exception_ptr& failure);

}  // namespace reshard::engine
