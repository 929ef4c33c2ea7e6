// An error says where, what and what to do, in this order; a check stops the process with its place.

#include "reshard/error.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

#include "base/check.h"

namespace reshard {
namespace {

constexpr ErrorCode kCodes[] = {ErrorCode::config,  ErrorCode::plugin,        ErrorCode::plan,
                                ErrorCode::budget,  ErrorCode::model,         ErrorCode::data,
                                ErrorCode::io,      ErrorCode::communication, ErrorCode::rank_failed,
                                ErrorCode::numeric, ErrorCode::interrupted};

TEST(Error, ReadsWhereWhatRemedyWithoutTheEmptyParts) {
  EXPECT_STREQ(Error(ErrorCode::config, "unknown key 'step'", "job.toml:14:1", "did you mean 'steps'?").what(),
               "job.toml:14:1: unknown key 'step' (did you mean 'steps'?)");
  EXPECT_STREQ(Error(ErrorCode::io, "cannot be read", "data.txt").what(), "data.txt: cannot be read");
  EXPECT_STREQ(Error(ErrorCode::numeric, "the loss is NaN", "", "lower lr").what(), "the loss is NaN (lower lr)");
  EXPECT_STREQ(Error(ErrorCode::numeric, "the loss is NaN").what(), "the loss is NaN");
}

TEST(Error, KeepsItsParts) {
  const Error error(ErrorCode::plan, "what", "where", "remedy");
  EXPECT_EQ(error.code(), ErrorCode::plan);
  EXPECT_EQ(error.message(), "what");
  EXPECT_EQ(error.where(), "where");
  EXPECT_EQ(error.remedy(), "remedy");
}

TEST(Error, NamesEveryCodeOnceAndNeverExitsWithSuccess) {
  std::set<std::string> names;
  for (const ErrorCode code : kCodes) {
    EXPECT_TRUE(names.insert(name(code)).second) << name(code);
    EXPECT_NE(exit_code(code), 0) << name(code);
  }
  EXPECT_EQ(names.count("unknown"), 0U);
  for (const ErrorCode input :
       {ErrorCode::config, ErrorCode::plugin, ErrorCode::plan, ErrorCode::budget, ErrorCode::model, ErrorCode::data})
    EXPECT_EQ(exit_code(input), 2) << name(input);
  for (const ErrorCode run : {ErrorCode::io, ErrorCode::communication, ErrorCode::rank_failed, ErrorCode::numeric})
    EXPECT_EQ(exit_code(run), 1) << name(run);
  EXPECT_EQ(exit_code(ErrorCode::interrupted), 130);
}

TEST(Check, StopsWithThePlaceTheConditionAndTheReason) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const int shards = 0;
  EXPECT_DEATH(RESHARD_CHECK(shards > 0, "a group has ranks"),
               "error_test.cpp:[0-9]+: check failed: shards > 0: a group has ranks");
  RESHARD_CHECK(shards == 0, "this one holds");
}

}  // namespace
}  // namespace reshard
