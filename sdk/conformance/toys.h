#pragma once

// Small problems that strategies are asked about, and what a right answer to them is.

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "conformance/subject.h"
#include "strategy/problem.h"

namespace reshard::conformance {

// The root owns the first of `bytes`; the others are its children, h.0, h.1, … Every unit is wholly trainable, its peak
// is predicted by a simple sum.
Problem toy(int ranks, int ranks_per_node, const std::vector<int64_t>& bytes);

// The one that most tests ask about: eight ranks on two nodes, a root and six units.
Problem ordinary();

// Fails the test unless the core accepts the answers. A problem that the strategy refuses is no failure, and false.
bool check_legal(const Subject& subject, const Problem& problem, const Result& result, const std::string& what);

// A problem and settings drawn at random.
Problem random_problem(std::mt19937_64& random);
Settings random_settings(const Subject& subject, std::mt19937_64& random);

// Every setting that differs from the defaults in one option: its ends, choices, long and short texts, lists.
struct Variant {
  std::string what;  // `with ahead = 8`
  Settings settings;
};
enum class Vary : uint8_t { ends, choices, texts, lists };
std::vector<Variant> variants(const Subject& subject, Vary vary);

// What the process holds.
struct Held {
  int64_t bytes = 0;  // of the heap
  int threads = 0, descriptors = 0;
  static Held now();
};

// Runs `cycle` so often, and fails the test where that makes the process hold more and more.
template <class Cycle>
void check_growth(int times, const char* what, const Cycle& cycle);
void check_held(const Held& before, const Held& after, int times, const char* what);

template <class Cycle>
void check_growth(int times, const char* what, const Cycle& cycle) {
  for (int i = 0; i < 20; ++i) cycle();  // what is made once is made now
  const Held before = Held::now();
  for (int i = 0; i < times; ++i) cycle();
  check_held(before, Held::now(), times, what);
}

}  // namespace reshard::conformance
