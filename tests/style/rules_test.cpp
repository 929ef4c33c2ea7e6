// This repository keeps its own rules: each rule over the whole tree, one test per rule, one line per finding.

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "tests/style/rules.h"

namespace reshard::style {
namespace {

class Rules : public testing::TestWithParam<Rule> {};

const Tree& this_repository() {
  static const Tree tree = read_tree(RESHARD_SOURCE_DIR);
  return tree;
}

TEST_P(Rules, HoldOnTheWholeTree) {
  for (const Finding& finding : GetParam().check(this_repository()))
    ADD_FAILURE_AT(finding.file.c_str(), finding.line) << finding.text();
}

// The rules would also hold on an empty tree, so something must have been read.
TEST(Tree, HasTheFoldersAndFilesOfThisRepository) {
  for (const char* path :
       {"CMakeLists.txt", "setup", ".ci/run", "core/base/error.cpp", "tests/style/rules_test.cpp", "CONTRIBUTING.md"})
    EXPECT_EQ(this_repository().files.count(path), 1U) << path;
  const auto& sources = this_repository().sources;
  EXPECT_GT(std::count_if(sources.begin(), sources.end(), [](const Source& s) { return starts_with(s.path, "core/"); }),
            10);
}

INSTANTIATE_TEST_SUITE_P(All, Rules, testing::ValuesIn(rules()), [](const testing::TestParamInfo<Rule>& test) {
  std::string name = test.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace reshard::style
