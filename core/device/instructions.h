#pragma once

// Which instruction set a kernel runs with. Every kernel that is offered several gives the same bits with each of them,
// so the choice is about speed only; tests pass one explicitly, everybody else takes the best. Pure functions, any
// thread.

#include <cstdint>
#include <vector>

namespace reshard::device {

enum class Instructions : uint8_t { scalar, avx2, avx512 };

// "scalar", "avx2", "avx512".
const char* name(Instructions set);

// The widest that this processor has.
Instructions best_instructions();

// All that this processor has, scalar first.
std::vector<Instructions> supported_instructions();

}  // namespace reshard::device
