// What was built with the headers of ABI 1.0 works for ever, and no line of that layout goes.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "plugin/strategy.h"
#include "tests/plugin/problem.h"

namespace reshard::plugin {
namespace {

namespace fs = std::filesystem;

std::set<std::string> layout_lines(const fs::path& folder) {
  std::set<std::string> lines;
  for (const char* name : {"plugin_layout.h", "ext/feedback.h"}) {
    std::ifstream in(folder / name);
    EXPECT_TRUE(in.good()) << folder / name;
    for (std::string line; std::getline(in, line);)
      if (line.starts_with("RESHARD_") && line.find("_AT(") != std::string::npos) lines.insert(line);
  }
  return lines;
}

TEST(Frozen, NoMemberMovesOrGoes) {
  const auto frozen = layout_lines(fs::path(RESHARD_SOURCE_DIR) / "tests/sdk/abi_1_0/reshard");
  const auto now = layout_lines(fs::path(RESHARD_SOURCE_DIR) / "sdk/include/reshard");
  ASSERT_GT(frozen.size(), 100U);
  for (const std::string& line : frozen) EXPECT_TRUE(now.contains(line)) << line;
}

TEST(Frozen, AStrategyOfAbi10IsLoadedAskedAndTold) {
  const std::string file = std::string(RESHARD_BINARY_DIR) + "/tests/sdk/frozen_1_0.so";
  const Strategy strategy = Strategy::load(file);
  EXPECT_EQ(strategy.info().abi, "1.0");
  StrategyInstance instance = strategy.create({{"below", tests::value(std::string("4 KiB"))}});
  const Problem problem = tests::toy(3);
  EXPECT_EQ(tests::text(problem, instance.decide(problem)),
            "root free/-/- - -: as in 1.0\n"
            "h.0 keep/-/- - -: as in 1.0\n"
            "h.1 keep/-/- - -: as in 1.0\n"
            "h.2 keep/-/- - -: as in 1.0\n"
            "lm_head free/-/- - -: as in 1.0\n");
  ASSERT_TRUE(instance.takes_feedback());
  StepSummary step;
  step.units.resize(problem.units.size());
  EXPECT_TRUE(instance.tell(step));
  step.step = 1;
  EXPECT_FALSE(instance.tell(step));
  EXPECT_NE(tests::text(problem, instance.decide(problem)).find("h.0 keep/"), std::string::npos);
  EXPECT_NE(tests::text(problem, instance.decide(problem)).find("h.1 free/"), std::string::npos);
}

}  // namespace
}  // namespace reshard::plugin
