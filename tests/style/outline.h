#pragma once

// Where functions begin and end, and which variables with static storage can change, found by counting braces. It is
// not a parser: it knows the shapes that this repository's code has, and its own test shows which.

#include <string>
#include <vector>

#include "tests/style/source.h"

namespace reshard::style {

struct Function {
  int first_line = 0, last_line = 0;  // from the first line of its head to the closing brace
  std::string head;                   // "Source run()", blanks squeezed, at most 60 characters
};

struct Variable {
  int line = 0;
  std::string text;  // "static int counter"
};

struct Outline {
  std::vector<Function> functions;  // at namespace or class level; lambdas count as part of the function around them
  std::vector<Variable> mutables;   // not constant, with static or thread storage
};

Outline outline(const Source& source);

}  // namespace reshard::style
