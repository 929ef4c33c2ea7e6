// abi.*: hosts of other minors, and what the header leaves to the host. Whatever the manner, the answers are the same.

#include <fmt/format.h>

#include "conformance/subject.h"
#include "conformance/toys.h"

namespace reshard::conformance {
namespace {

std::string ask(const Trial& trial, const Manner& manner) {
  const Subject subject(trial, manner);
  const Instance instance(subject, subject.defaults(), manner);
  const Problem problem = ordinary();
  return answers_text(problem, instance.decide(problem, manner));
}

void check_same(const Trial& trial, const Manner& manner) {
  const std::string usual = ask(trial, {}), other = ask(trial, manner);
  if (other != usual) fail(fmt::format("it answers {}", difference(usual, other)));
}

void larger_structs(const Trial& trial) {
  Manner manner;
  manner.tails = true;
  manner.error_size = sizeof(reshard_error) + 32;
  check_same(trial, manner);
}

void unknown_flags(const Trial& trial) {
  Manner manner;
  manner.unknown_flags = true;
  check_same(trial, manner);
}

void loose_texts(const Trial& trial) {
  Manner manner;
  manner.loose_names = true;
  check_same(trial, manner);
}

// Every call of the plan fails in turn: then there is an error to explain.
void check_failing(const Trial& trial, Manner manner) {
  const Subject subject(trial, manner);
  const Instance instance(subject, subject.defaults(), manner);
  const Problem problem = ordinary();
  const int calls = instance.decide(problem, manner).calls;
  for (manner.refuse_at = 1; manner.refuse_at <= calls; ++manner.refuse_at) instance.decide(problem, manner);
}

void null_error(const Trial& trial) {
  Manner manner;
  manner.null_error = true;
  check_failing(trial, manner);
}

void short_error(const Trial& trial) {
  for (const uint32_t size : {4U, 8U, 16U, 144U}) {
    Manner manner;
    manner.error_size = size;
    check_failing(trial, manner);
  }
}

void error_sizes(const Trial& trial) {
  check_failing(trial, {});
}

constexpr Test kTests[] = {
    {"abi.larger_structs", "structs that a later host has made longer change no answer", Level::quick, Gate::no,
     larger_structs},
    {"abi.unknown_flags", "flags that the header does not know change no answer", Level::full, Gate::no, unknown_flags},
    {"abi.loose_texts", "texts are read by their size, not to a NUL", Level::quick, Gate::no, loose_texts},
    {"abi.null_error", "where a caller has no error buffer, nothing is written", Level::quick, Gate::no, null_error},
    {"abi.short_error", "nothing is written behind a short error buffer", Level::full, Gate::no, short_error},
    {"abi.error_sizes", "an error's sizes are those of its texts", Level::full, Gate::no, error_sizes},
};

}  // namespace

std::span<const Test> abi_tests() {
  return kTests;
}

}  // namespace reshard::conformance
