#pragma once

// The one table of the strategies that come with Reshard; tests/plugin/catalog_test.cpp compares it with plugins/.

#include <string>

namespace reshard::tests {

inline constexpr const char* kShipped[] = {"replicate",    "zero1",  "zero2",     "zero3",       "root_no_reshard",
                                           "node_reshard", "hybrid", "keep_last", "byte_budget", "adaptive"};

// Those that spend what [memory] budget says, and are an error without one.
inline bool needs_budget(const std::string& name) {
  return name == "byte_budget" || name == "adaptive";
}

inline std::string shipped(const std::string& name) {
  return std::string(RESHARD_BINARY_DIR) + "/plugins/" + name + ".so";
}

}  // namespace reshard::tests
