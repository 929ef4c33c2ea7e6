// Option `what`: what decide throws. Built three times: as usual, with the strings of before C++11, and with a C++ runtime of
// its own inside.

#include <reshard/strategy.hpp>

#ifndef NAME
#define NAME "throws"
#endif

namespace {

using namespace reshard::sdk;

struct Throws {
  std::string what = "standard";
  std::vector<std::string> names;

  static constexpr Field<Throws> options[] = {
      {"what", &Throws::what, Choices{"standard|odd|memory|option|item|problem|long"}, "what decide throws"},
      {"names", &Throws::names, "names to find fault with"},
  };

  void decide(const Problem&, Plan&) const {
    if (what == "standard") throw std::runtime_error("the moon is in the wrong phase");
    if (what == "odd") throw 42;
    if (what == "memory") throw std::bad_alloc();
    if (what == "option") throw OptionError("what", "this word is not liked");
    if (what == "item") throw OptionError("names[1]", "this name is not liked");
    if (what == "problem") throw ProblemError("one unit is the least that it needs");
    throw std::runtime_error(std::string(1023, 'x') + "ä");  // 1025 bytes: the letter does not fit
  }
};

}  // namespace

RESHARD_STRATEGY(Throws, NAME, "1.0.0", "throws in decide")
