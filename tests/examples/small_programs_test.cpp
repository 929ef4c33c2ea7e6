// The small examples, run as a person runs them. Each checks its own claim and says so in its last line; here their
// numbers are looked at too, under every strategy.

#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/shipped.h"

namespace {

struct Ran {
  std::vector<std::string> lines;  // of stdout and stderr
  int status = 0;
  bool has(const std::string& part) const {
    for (const std::string& line : lines)
      if (line.find(part) != std::string::npos) return true;
    return false;
  }
  // The cells of the table's row that begins with `name`; cells stand at least two blanks apart.
  std::vector<std::string> row(const std::string& name) const {
    std::vector<std::string> cells;
    for (const std::string& line : lines) {
      if (line.rfind(name + "  ", 0) != 0) continue;
      for (std::size_t at = 0; at < line.size();) {
        const std::size_t end = std::min(line.find("  ", at), line.size());
        cells.push_back(line.substr(at, end - at));
        at = std::min(line.find_first_not_of(' ', end), line.size());
      }
    }
    return cells;
  }
};

Ran run(const std::string& program, const std::string& arguments) {
  Ran ran;
  FILE* pipe = popen((std::string(RESHARD_BINARY_DIR) + "/bin/" + program + " " + arguments + " 2>&1").c_str(), "r");
  std::string text;
  std::array<char, 4096> part;
  while (const std::size_t got = std::fread(part.data(), 1, part.size(), pipe)) text.append(part.data(), got);
  const int status = pclose(pipe);
  ran.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    ran.lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return ran;
}

using Cells = std::vector<std::string>;
const std::vector<std::string> kPrograms{"recompute", "tied", "lora", "pipeline"};

class SmallPrograms : public testing::TestWithParam<std::string> {
 protected:
  // Their roots own nothing, and all ranks are one node.
  static bool frees() {
    return GetParam() == "zero3" || GetParam() == "root_no_reshard" || GetParam() == "node_reshard" ||
           GetParam() == "hybrid";
  }
  static bool keeps_two() { return GetParam() == "keep_last"; }
  static bool replicates() { return GetParam() == "replicate"; }
  static Ran run_with_strategy(const std::string& program, const std::string& verdict) {
    Ran ran = run(program, "--strategy " + GetParam());
    EXPECT_EQ(ran.status, 0);
    EXPECT_FALSE(ran.lines.empty());
    if (!ran.lines.empty()) {
      EXPECT_EQ(ran.lines.back(), verdict);
    }
    return ran;
  }
};

TEST_P(SmallPrograms, RecomputeGathersNothingWhereTheUnitIsWholeAndOnceWhereItIsNot) {
  const Ran ran = run_with_strategy(
      "recompute", "holds: the same losses bit for bit and no gather more, at less than half of the activations");
  const Cells kept = ran.row("kept"), own = ran.row("recomputed in its block's backward"),
              pairs = ran.row("recomputed in pairs, ahead of it");
  ASSERT_EQ(kept.size(), 6U);
  ASSERT_EQ(own.size(), 6U);
  ASSERT_EQ(pairs.size(), 6U);
  // Per step and micro-batch: 8 blocks forward and backward, or each once per step.
  const std::string gathers = frees() ? "320" : keeps_two() ? "280" : replicates() ? "0" : "80";
  for (const Cells& cells : {kept, own, pairs}) EXPECT_EQ(cells[3], gathers);
  EXPECT_EQ(own[4], "0");
  EXPECT_EQ(pairs[4], frees()       ? "80"
                      : keeps_two() ? "60"
                                    : "0");  // the first of each pair; backward had the second gathered ahead
  for (const Cells& cells : {own, pairs}) EXPECT_EQ(cells[5], kept[5]);
}

TEST_P(SmallPrograms, TiedAddsTheGradientsOfBothUsesAndRefusesTwoUnits) {
  const Ran ran = run_with_strategy("tied", "holds: one matrix, its gradient the sum of both uses");
  EXPECT_TRUE(ran.has(
      "over two units: unit \"last\": parameter \"output.weight\" of unit \"last\" is the same as \"embedding.weight\" "
      "of unit \"first\" (tied parameters belong to one unit: put both into one that encloses their uses)"));
  const Cells one = ran.row("one, tied"), two = ran.row("two");
  ASSERT_EQ(one.size(), 6U);
  ASSERT_EQ(two.size(), 6U);
  EXPECT_EQ(one[1], "528");
  EXPECT_EQ(two[1], "1040");
  EXPECT_EQ(one[4], two[4]);  // the first loss
}

TEST_P(SmallPrograms, LoraPaysForTheAdaptersAloneAndLeavesTheBaseAsItWas) {
  const Ran ran = run_with_strategy(
      "lora", "holds: state and traffic in proportion to what is trained, the frozen base bit for bit as it was");
  const Cells adapters = ran.row("adapters"), all = ran.row("all");
  ASSERT_EQ(adapters.size(), 8U);
  ASSERT_EQ(all.size(), 8U);
  EXPECT_EQ(adapters[1], "384");
  EXPECT_EQ(all[1], "12,672");
  EXPECT_EQ(adapters[3], replicates() ? "3 KiB" : "1.5 KiB");  // two states of 4 bytes, over two ranks
  EXPECT_EQ(adapters[7], "unchanged");
  EXPECT_EQ(all[7], "changed");
}

TEST_P(SmallPrograms, PipelineHasTheLossesOfOneStageAndEndsWhenAStageFails) {
  const Ran ran = run_with_strategy("pipeline", "holds: the losses of one stage bit for bit, with no gather more");
  const Cells whole = ran.row("one stage"), first = ran.row("two: stage 0"), second = ran.row("two: stage 1");
  ASSERT_EQ(whole.size(), 5U);
  ASSERT_EQ(first.size(), 5U);
  ASSERT_EQ(second.size(), 5U);
  EXPECT_EQ(whole[1], "F0 B0 F1 B1 F2 B2 F3 B3");
  EXPECT_EQ(first[1], "F0 F1 B0 F2 B1 F3 B2 B3");
  EXPECT_EQ(second[1], "F0 B0 F1 B1 F2 B2 F3 B3");
  EXPECT_EQ(first[2], frees() ? "16" : replicates() ? "0" : "2");
  EXPECT_EQ(second[2], keeps_two() ? "8" : first[2]);  // both of its units, between no two micro-batches
  EXPECT_EQ(second[3], whole[3]);
  EXPECT_EQ(second[4], whole[4]);
  EXPECT_TRUE(ran.has("stage 1 fails in step 3, and both end: stage 1, rank 1: a made-up failure"));
}

INSTANTIATE_TEST_SUITE_P(Under, SmallPrograms,
                         testing::ValuesIn([] {
                           std::vector<std::string> all(std::begin(reshard::tests::kShipped),
                                                        std::end(reshard::tests::kShipped));
                           std::erase_if(all, reshard::tests::needs_budget);
                           return all;
                         }()),
                         [](const auto& strategy) { return strategy.param; });

TEST(SmallProgramsAlone, HaveNoBudgetForStrategiesThatSpendOne) {
  for (const std::string& program : kPrograms)
    for (const std::string strategy : reshard::tests::kShipped) {
      if (!reshard::tests::needs_budget(strategy)) continue;
      const Ran ran = run(program, "--strategy " + strategy);
      EXPECT_EQ(ran.status, 2);
      EXPECT_TRUE(ran.has(program + ": ") && ran.has("memory.budget")) << ran.lines.at(0);
    }
}

TEST(SmallProgramsAlone, TheMlpHasUnder120Lines) {
  std::ifstream source(RESHARD_SOURCE_DIR "/examples/mlp/main.cpp");
  int lines = 0;
  for (std::string line; std::getline(source, line);) ++lines;
  EXPECT_GT(lines, 50);
  EXPECT_LT(lines, 120) << "README says \"under 120 lines\"";
}

TEST(SmallProgramsAlone, TakeTheDefaultStrategyAndRefuseWhatTheyDoNotKnow) {
  for (const std::string& program : kPrograms) {
    SCOPED_TRACE(program);
    EXPECT_EQ(run(program, "").lines, run(program, "--strategy zero3").lines);
    const Ran unknown = run(program, "--strategy zero4");
    EXPECT_EQ(unknown.status, 2);
    EXPECT_TRUE(unknown.has(program + ": --strategy: there is no strategy \"zero4\"")) << unknown.lines.at(0);
    const Ran misused = run(program, "zero2");
    EXPECT_EQ(misused.status, 2);
    EXPECT_EQ(misused.lines, Cells{"usage: " + program + " [--strategy NAME]"});
  }
}

}  // namespace
