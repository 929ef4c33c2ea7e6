// Broken strategies, one rule broken by each: what the user is told, to the letter. Paths are written as @.

#include <gtest/gtest.h>

#include <fenv.h>

#include "plugin/catalog.h"
#include "plugin/file.h"
#include "plugin/floating_point.h"
#include "plugin/strategy.h"
#include "tests/plugin/files.h"

namespace reshard::plugin {
namespace {

using tests::broken;

template <class Body>
std::string error_text(const Body& body) {
  std::string text = tests::error_text(body);
  const std::string folder = std::string(RESHARD_BINARY_DIR) + "/tests/misuse/";
  for (std::size_t at; (at = text.find(folder)) != std::string::npos;) text.replace(at, folder.size(), "@");
  return text;
}

std::string loading(const std::string& name) {
  return error_text([&] { Strategy::load(broken(name)); });
}

Problem toy() {
  Problem problem;
  problem.ranks = 2;
  for (const char* name : {"root", "h.0", "h.1"}) {
    ProblemUnit unit;
    unit.name = name, unit.root = problem.units.empty(), unit.parent = unit.root ? -1 : 0, unit.bytes = 64;
    problem.units.push_back(unit);
  }
  return problem;
}

std::string deciding(const std::string& name, const OptionValues& options) {
  return error_text([&] { Strategy::load(broken(name)).create(options).decide(toy()); });
}

OptionValues options(std::initializer_list<std::pair<const char*, decltype(OptionValue::value)>> list) {
  OptionValues values;
  int line = 10;
  for (const auto& [name, value] : list) values[name] = {value, "job.toml:" + std::to_string(line++) + ":1"};
  return values;
}

TEST(BrokenPlugin, RefusedBeforeAnyOfItRuns) {
  EXPECT_EQ(loading("newer_host"),
            "plugin: plugin @newer_host.so (newer_host 1.0.0): needs strategy ABI 1.7 or newer; this host has 1.0 (use "
            "a newer host, or a plugin built for ABI 1.0) [abi.host-too-old]");
  EXPECT_EQ(loading("other_major"),
            "plugin: plugin @other_major.so: is built for strategy ABI 2.0 and 3.1; this host has 1.0 (use a plugin "
            "built for ABI 1) [abi.major]");
  EXPECT_EQ(loading("other_name"),
            "plugin: plugin @other_name.so (some_name 1.0.0): is named other_name.so, but its note says \"some_name\" "
            "(name it some_name.so) [file.name]");
  EXPECT_EQ(loading("extra_library"),
            "plugin: plugin @extra_library.so (extra_library 1.0.0): depends on libmisuse_extra.so; a strategy may "
            "depend on the C and C++ runtime alone (link it in statically) [elf.needed]");
}

TEST(BrokenPlugin, InspectionRunsNothing) {
  EXPECT_EQ(inspect(broken("aborts")).version, "1.0.0");
}

TEST(BrokenPlugin, RefusedByTheLoaderOrItsTables) {
  EXPECT_EQ(loading("missing_symbol"),
            "plugin: plugin @missing_symbol.so (missing_symbol 1.0.0): imports no_such_function, which nothing "
            "provides (link it with -z defs to see this when it is built) [load.symbol]");
  EXPECT_EQ(loading("borrowed_entry"),
            "plugin: plugin @borrowed_entry.so (borrowed_entry 1.0.0): does not define reshard_plugin_v1 itself; it is "
            "found in @lender/libc++abi.so.1 (build it again with this host's headers) [entry.owner]");
  EXPECT_EQ(loading("init_fails"),
            "plugin: plugin @init_fails.so (init_fails 1.0.0): cannot be used: init failed: no licence found (see what "
            "the strategy's documentation says of it) [load.init]");
  EXPECT_EQ(loading("bad_table"),
            "plugin: plugin @bad_table.so (bad_table 1.0.0): has the option ahead, which has the default 9, outside 0 "
            "… 8 (mend the strategy's table of options) [entry.options]");
}

TEST(BrokenPlugin, EveryStatusIsReported) {
  const auto with = [](int64_t status, bool create = false, const char* text = "on purpose") {
    return deciding("odd_status", options({{"status", status}, {"create", create}, {"text", std::string(text)}}));
  };
  const std::string where = "plugin: plugin @odd_status.so (odd_status 1.0.0): ";
  EXPECT_EQ(with(0), "no error");
  EXPECT_EQ(with(1), where + "decide failed: on purpose");
  EXPECT_EQ(with(1, false, ""), where + "decide failed: it gave no reason");
  EXPECT_EQ(with(1, false, "two\nlines"), where + "decide failed: two\\nlines");
  EXPECT_EQ(with(2), where + "decide failed: on purpose");  // no option is named
  EXPECT_EQ(with(3), "plan: strategy odd_status cannot serve this job: on purpose");
  EXPECT_EQ(with(7), where + "decide failed: on purpose");
  EXPECT_EQ(with(77), where + "decide returned the unknown status 77: on purpose");
  EXPECT_EQ(with(-1), where + "decide returned the unknown status -1: on purpose");
  EXPECT_EQ(with(6, true), where + "create failed: on purpose");
  EXPECT_EQ(with(77, true), where + "create returned the unknown status 77: on purpose");
  EXPECT_EQ(deciding("no_instance", {}),
            "plugin: plugin @no_instance.so (no_instance 1.0.0): create made no instance and reported no failure");
}

TEST(BrokenPlugin, AFailedCreateThatLeavesAnInstanceIsSaid) {
  std::string said;
  const Strategy strategy =
      Strategy::load(broken("odd_status"), [&](LogLevel, std::string_view, std::string_view line) { said += line; });
  EXPECT_THROW(strategy.create(options({{"status", int64_t{1}}, {"create", true}})), Error);
  EXPECT_EQ(said, "create failed and left an instance; it is not used");
}

// The plugin swallows every refusal: the answer fails all the same.
TEST(BrokenPlugin, EveryBadAnswerIsRefused) {
  const char* const expected[] = {
      "answered for unit 3; the problem has 3 units, from 0",
      "answered after_forward = 9, not free (0), keep (1) or shrink (2) for unit h.0",
      "answered after_forward = shrink to 0 ranks, not to at least 1 for unit h.0",
      "answered after_backward = 2, not free (0) or keep (1) for unit h.0",
      "answered reduce = 2, not each (0) or last (1) for unit h.0",
      "answered prefetch_forward = 9, outside 0 … 8 for unit h.0",
      "answered prefetch_backward = 4294967295, outside 0 … 8 for unit h.0",
      "answered fields that this host does not know (0x40) for unit h.0",
      "answered an incomplete decision for unit h.0",
      "answered twice for unit h.0 without clearing the first answer",
      "answered shard_over = 4294967295, more ranks than there can be",
      "answered shard_over twice without clearing the first answer",
      "answered all_reduce = 2, not each (0) or last (1)",
      "answered all_reduce twice without clearing the first answer",
      "cleared unit 77; the problem has 3 units, from 0",
      "asked for the predicted peak with nowhere to put it",
      "answered an incomplete decision for unit h.1",
  };
  for (std::size_t fault = 0; fault < std::size(expected); ++fault)
    EXPECT_EQ(deciding("bad_answers", options({{"fault", static_cast<int64_t>(fault)}})),
              "plugin: plugin @bad_answers.so (bad_answers 1.0.0): " + std::string(expected[fault]));
  EXPECT_EQ(deciding("bad_answers", options({{"fault", int64_t{99}}})), "no error");
}

TEST(BrokenPlugin, WhatIsThrownBecomesAnError) {
  const auto with = [](const char* what) {
    OptionValues values = options({{"what", std::string(what)}});
    values["names"] = {OptionValue::List{{std::string("a"), "job.toml:11:10"}, {std::string("b"), "job.toml:11:15"}},
                       "job.toml:11:1"};
    return deciding("throws", values);
  };
  const std::string where = "plugin: plugin @throws.so (throws 1.0.0): decide failed: ";
  EXPECT_EQ(with("standard"), where + "the moon is in the wrong phase");
  EXPECT_EQ(with("odd"), where + "an exception that is no std::exception");
  EXPECT_EQ(with("memory"), where + "out of memory");
  EXPECT_EQ(with("option"), "config: job.toml:10:1: strategy.options.throws.what: this word is not liked");
  EXPECT_EQ(with("item"), "config: job.toml:11:15: strategy.options.throws.names[1]: this name is not liked");
  EXPECT_EQ(with("problem"), "plan: strategy throws cannot serve this job: one unit is the least that it needs");
  EXPECT_EQ(with("long"), where + std::string(1023, 'x'));
}

TEST(BrokenPlugin, AnExtensionsTableIsWholeAndWhatItSaysIsChecked) {
  EXPECT_EQ(loading("short_extension"),
            "plugin: plugin @short_extension.so (short_extension 1.0.0): has a table of 4 bytes for "
            "reshard.feedback/1; it has "
            "16 (build it again with this host's headers) [entry.extension]");
  EXPECT_EQ(
      loading("empty_extension"),
      "plugin: plugin @empty_extension.so (empty_extension 1.0.0): has a table for reshard.feedback/1 without summary "
      "(build it again with this host's headers) [entry.extension]");
  const auto telling = [](const char* name) {
    return error_text([&] {
      StrategyInstance instance = Strategy::load(broken(name)).create({});
      EXPECT_TRUE(instance.takes_feedback());
      instance.tell(StepSummary());
    });
  };
  EXPECT_EQ(telling("wishes_much"),
            "plugin: plugin @wishes_much.so (wishes_much 1.0.0): feedback asked for 7, not 0 or 1 (to decide anew)");
  EXPECT_EQ(telling("no_feedback"), "plugin: plugin @no_feedback.so (no_feedback 1.0.0): feedback failed: too noisy");
  EXPECT_FALSE(Strategy::load(broken("talks")).create({}).takes_feedback());
}

TEST(BrokenPlugin, TheFloatingPointStateIsRestoredAndTheChangeSaidOnce) {
  const FloatingPointState before = FloatingPointState::read();
  std::vector<std::string> said;
  const LogFunction log = [&](LogLevel level, std::string_view strategy, std::string_view line) {
    EXPECT_EQ(level, LogLevel::warn);
    EXPECT_EQ(strategy, "flushes_denormals");
    said.emplace_back(line);
  };
  StrategyInstance instance = Strategy::load(broken("flushes_denormals"), log).create({});
  EXPECT_EQ(FloatingPointState::read(), before);
  instance.decide(toy());
  instance.decide(toy());
  EXPECT_EQ(FloatingPointState::read(), before);
  volatile double small = 1e-310;  // a denormal: flushed to zero, had the state been left as it was
  EXPECT_GT(small * 0.5, 0.0);
  ASSERT_EQ(said.size(), 2u);
  EXPECT_NE(said[0].find("changed how this thread computes while it was loaded: "), std::string::npos) << said[0];
  EXPECT_NE(said[1].find("changed how this thread computes in decide: "), std::string::npos) << said[1];
#if defined(__x86_64__)
  EXPECT_TRUE(said[1].ends_with("MXCSR 0x1f80, x87 0x037f → MXCSR 0x9fc0, x87 0x037f; restored")) << said[1];
#endif
}

// init and deinit come in pairs, however often the strategy is taken up again; lines arrive cleaned and with their
// level.
TEST(Talks, AllOfItsLifeArrives) {
  std::string heard;
  const LogFunction log = [&](LogLevel level, std::string_view strategy, std::string_view line) {
    heard += std::to_string(static_cast<int>(level)) + " " + std::string(strategy) + " " +
             (line.size() > 100 ? std::to_string(line.size()) + " bytes" : std::string(line)) + "\n";
  };
  for (int round = 0; round < 2; ++round) {
    heard.clear();
    {
      const Strategy first = Strategy::load(broken("talks"), log);
      const Strategy second = Strategy::load(broken("talks"));
      second.create({}).decide(toy());  // nobody listens to this one
      first.create({}).decide(toy());
    }
    EXPECT_EQ(heard,
              "2 talks init\n"
              "1 talks create\\nin two lines\\x1b[1m\n"
              "4 talks 8192 bytes\n"
              "2 talks deinit\n");
  }
}

}  // namespace
}  // namespace reshard::plugin
