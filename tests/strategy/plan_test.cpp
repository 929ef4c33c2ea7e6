// A plan's hash covers what the ranks will do, not who decided it; and values read as TOML spells them.

#include "strategy/plan.h"

#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "strategy/resolve.h"

namespace reshard {
namespace {

Model model(bool root_owns = true) {
  Model model({.name = "root"});
  if (root_owns) model = Model({.name = "root", .parameters = {{"r", {8}}}});
  model.add({.name = "a", .parameters = {{"a", {8}}}});
  model.add({.name = "b", .parameters = {{"b", {8}}}});
  return model;
}

Plan with(const Answers& answers, const std::vector<UnitOverride>& entries = {}, int ranks = 4, bool root_owns = true) {
  return resolve(model(root_owns), ranks, "p", answers, {.units = entries});
}

Answers answered(const UnitAnswer& each) {
  return {.units = {each, each, each}, .shard_over = {}, .all_reduce = {}, .plan_reason = "r"};
}

TEST(PlanHash, DoesNotDependOnWhoDecidedOrWhy) {
  UnitAnswer keep;
  keep.after_forward = AfterForward::keep();
  keep.reason = "it fits";
  UnitOverride entry{.match = "*", .where = "job.toml:3:1"};
  entry.after_forward = {AfterForward::keep(), "job.toml:4:1"};
  UnitOverride line = entry;
  line.command_line = true;
  const std::string hash = with(answered(keep)).hash();
  EXPECT_EQ(hash.size(), 16U);
  EXPECT_EQ(hash.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_EQ(with({}, {entry}).hash(), hash);
  EXPECT_EQ(with({}, {line}).hash(), hash);
  UnitOverride one{.match = "*", .where = "w"};
  one.after_forward = {AfterForward::shrink(1), "w"};
  EXPECT_EQ(with({}, {one}).hash(), hash);
  EXPECT_NE(with({}).hash(), hash);
  UnitOverride all{.match = "*", .where = "w"};
  all.after_forward = {AfterForward::shrink(4), "w"};
  EXPECT_EQ(with({}, {all}).hash(), with({}).hash());
}

TEST(PlanHash, DiffersByEveryFieldOfEveryUnitAndByTheMesh) {
  std::set<std::string> hashes = {with({}).hash()};
  std::size_t plans = 1;
  for (const char* unit : {"root", "a", "b"})
    for (int f = 0; f < kFields; ++f) {
      UnitOverride entry{.match = unit, .where = "w"};
      switch (static_cast<Field>(f)) {
        case Field::after_forward: entry.after_forward = {AfterForward::shrink(2), "w"}; break;
        case Field::after_backward: entry.after_backward = {AfterBackward::keep, "w"}; break;
        case Field::reduce: entry.reduce = {Reduce::last, "w"}; break;
        case Field::prefetch_forward: entry.prefetch_forward = {2, "w"}; break;
        case Field::prefetch_backward: entry.prefetch_backward = {2, "w"}; break;
      }
      hashes.insert(with({}, {entry}).hash());
      ++plans;
    }
  for (const int ranks : {1, 2, 8}) hashes.insert(with({}, {}, ranks).hash()), ++plans;
  for (const AllReduce all_reduce : {AllReduce::each, AllReduce::last})
    hashes.insert(with({.units = {}, .shard_over = 2, .all_reduce = all_reduce, .plan_reason = ""}).hash()), ++plans;
  EXPECT_EQ(hashes.size(), plans);
}

TEST(PlanHash, LeavesOutWhatChangesNothing) {
  UnitOverride root{.match = "root", .where = "w"};
  root.after_forward = {AfterForward::keep(), "w"};
  EXPECT_NE(with({}, {root}).hash(), with({}).hash());
  EXPECT_EQ(with({}, {root}, 4, false).hash(), with({}, {}, 4, false).hash());  // a root that owns nothing
  Answers last{.units = {}, .shard_over = {}, .all_reduce = AllReduce::last, .plan_reason = ""};
  EXPECT_EQ(with(last).hash(), with({}).hash());  // no replicas
}

TEST(Decision, ReadsAsTomlSpellsIt) {
  Decision decision;
  std::string text;
  for (int f = 0; f < kFields; ++f)
    text += std::string(name(static_cast<Field>(f))) + "=" + value_text(decision, static_cast<Field>(f)) + " ";
  EXPECT_EQ(text, "after_forward=free after_backward=free reduce=each prefetch_forward=1 prefetch_backward=1 ");
  decision = {.after_forward = AfterForward::shrink(8),
              .after_backward = AfterBackward::keep,
              .reduce = Reduce::last,
              .prefetch_forward = 0,
              .prefetch_backward = 8};
  text.clear();
  for (int f = 0; f < kFields; ++f) text += value_text(decision, static_cast<Field>(f)) + " ";
  EXPECT_EQ(text, "8 keep last 0 8 ");
  EXPECT_EQ(value_text(AfterForward::keep()), "keep");
  EXPECT_STREQ(value_text(AllReduce::each), "each");
  EXPECT_STREQ(value_text(AllReduce::last), "last");
}

}  // namespace
}  // namespace reshard
