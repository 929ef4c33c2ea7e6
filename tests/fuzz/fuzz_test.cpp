// A fixed part of the fuzzing for every build: the same mutations of the same seeds each time, without libFuzzer. What
// fails says target, seed and mutation; tests/fuzz/run.sh goes on from there for as long as one likes.

#include <random>

#include <gtest/gtest.h>

#include "tests/fuzz/targets.h"

namespace reshard::fuzz {
namespace {

std::string mutated(std::string bytes, uint32_t seed) {
  std::mt19937 random(seed);
  const auto place = [&] { return bytes.empty() ? 0 : random() % bytes.size(); };
  for (uint32_t i = 0, count = 1 + random() % 8; i < count && !bytes.empty(); ++i) {
    switch (random() % 5) {
      case 0: bytes[place()] = static_cast<char>(random()); break;
      case 1: bytes[place()] = static_cast<char>(bytes[place()] ^ (1 << (random() % 8))); break;
      case 2: bytes.resize(place()); break;
      case 3: bytes.insert(place(), bytes.substr(place(), random() % 32)); break;
      case 4: bytes.replace(place(), std::min<std::size_t>(8, bytes.size()), 8, static_cast<char>(random())); break;
    }
  }
  return bytes;
}

class Fuzz : public testing::TestWithParam<int> {};

TEST_P(Fuzz, AFixedPart) {
  const Target& target = kTargets[GetParam()];
  const std::vector<std::string> seeds = target.seeds();
  ASSERT_FALSE(seeds.empty());
  for (std::size_t s = 0; s < seeds.size(); ++s) {
    ASSERT_FALSE(seeds[s].empty());
    for (uint32_t mutation = 0; mutation < 1500; ++mutation) {
      SCOPED_TRACE(std::string(target.name) + ", seed " + std::to_string(s) + ", mutation " + std::to_string(mutation));
      const std::string bytes = mutation == 0 ? seeds[s] : mutated(seeds[s], mutation);
      EXPECT_NO_THROW(target.run({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Fuzz, testing::Range(0, 3), [](const auto& one) { return std::string(kTargets[one.param].name); });

}  // namespace
}  // namespace reshard::fuzz
