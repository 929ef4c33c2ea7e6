// opt.*: what a user may write, by the plugin's own table. It is accepted, or refused by the option's name.

#include <fmt/format.h>

#include "conformance/subject.h"
#include "conformance/toys.h"

namespace reshard::conformance {
namespace {

void check_all(const Trial& trial, std::initializer_list<Vary> kinds, const char* none) {
  const Subject subject(trial);
  const Problem problem = ordinary();
  int count = 0;
  for (const Vary vary : kinds)
    for (const Variant& variant : variants(subject, vary)) {
      ++count;
      void* instance = nullptr;
      const Result made = subject.create(variant.settings, &instance);
      check_refusal(subject, made, "create", variant.what);
      if (instance == nullptr) continue;
      check_legal(subject, problem, subject.decide(instance, problem), variant.what);
      subject.destroy(instance);
    }
  if (count == 0) skip(none);
}

void defaults(const Trial& trial) {
  const Subject subject(trial);
  const Instance instance(subject);
}

void ends(const Trial& trial) {
  check_all(trial, {Vary::ends}, "it has no number among its options");
}

void choices(const Trial& trial) {
  check_all(trial, {Vary::choices}, "it has no choice among its options");
}

void texts(const Trial& trial) {
  check_all(trial, {Vary::texts}, "it has no text among its options");
}

void lists(const Trial& trial) {
  check_all(trial, {Vary::lists}, "it has no list among its options");
}

constexpr Test kTests[] = {
    {"opt.defaults", "create succeeds with every option at its default", Level::quick, Gate::no, defaults},
    {"opt.ends", "both ends of every number's range are accepted, or refused by name", Level::quick, Gate::no, ends},
    {"opt.choices", "every choice is accepted, or refused by name", Level::quick, Gate::no, choices},
    {"opt.texts", "empty, long and non-ASCII texts are accepted, or refused by name", Level::full, Gate::no, texts},
    {"opt.lists", "empty and long lists are accepted, or refused by name", Level::full, Gate::no, lists},
};

}  // namespace

std::span<const Test> option_tests() {
  return kTests;
}

}  // namespace reshard::conformance
