// A user's options against a strategy's table: every error names the option and points at its place; what passes is
// complete, typed and in order.

#include "plugin/options.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/plugin/files.h"

namespace reshard::plugin {
namespace {

using tests::error_text;
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min(), kMost = std::numeric_limits<int64_t>::max();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

OptionSpec spec(const std::string& name, uint32_t type) {
  OptionSpec option;
  option.name = name, option.type = type, option.doc = "what " + name + " does";
  option.integer_min = kLeast, option.integer_max = kMost;
  option.real_min = -kInfinity, option.real_max = kInfinity;
  option.fallback.type = type;
  return option;
}

std::vector<OptionSpec> table() {
  std::vector<OptionSpec> all = {spec("ahead", RESHARD_INTEGER),
                                 spec("flag", RESHARD_BOOL),
                                 spec("keep", RESHARD_LIST | RESHARD_STRING),
                                 spec("mode", RESHARD_CHOICE),
                                 spec("ratio", RESHARD_REAL),
                                 spec("reserve", RESHARD_BYTES),
                                 spec("sizes", RESHARD_LIST | RESHARD_INTEGER),
                                 spec("title", RESHARD_STRING)};
  all[0].integer_min = 0, all[0].integer_max = 8, all[0].fallback.integer = 1;
  all[3].choices = {"keep", "free"}, all[3].fallback.text = "keep";
  all[4].real_min = 0, all[4].real_max = 1, all[4].fallback.real = 0.5;
  all[5].integer_min = 0;
  all[6].integer_min = 1, all[6].integer_max = 64;
  return all;
}

OptionValue at(const std::string& where, decltype(OptionValue::value) value) {
  return {std::move(value), where};
}

std::string error(const OptionValues& values, const std::vector<OptionSpec>& options = table()) {
  return error_text([&] { check_options("mine", options, values, "job.toml:3:1"); });
}

TEST(Options, ErrorsNameTheOptionAndItsPlace) {
  EXPECT_EQ(error({{"ahead", at("job.toml:14:12", int64_t{9})}}),
            "config: job.toml:14:12: strategy.options.mine.ahead is 9, outside 0 … 8");
  EXPECT_EQ(error({{"ahead", at("job.toml:14:12", true)}}),
            "config: job.toml:14:12: strategy.options.mine.ahead is a bool, not an integer");
  EXPECT_EQ(error({{"ahead", at("job.toml:14:12", 1.0)}}),
            "config: job.toml:14:12: strategy.options.mine.ahead is a real, not an integer");
  EXPECT_EQ(error({{"flag", at("job.toml:2:1", int64_t{1})}}),
            "config: job.toml:2:1: strategy.options.mine.flag is an integer, not true or false");
  EXPECT_EQ(error({{"mode", at("job.toml:5:1", std::string("kep"))}}),
            "config: job.toml:5:1: strategy.options.mine.mode is \"kep\", not \"keep\" or \"free\" (did you mean "
            "\"keep\"?)");
  EXPECT_EQ(error({{"ratio", at("--set strategy.options.mine.ratio", 1.5)}}),
            "config: --set strategy.options.mine.ratio: strategy.options.mine.ratio is 1.5, outside 0.0 … 1.0");
  EXPECT_EQ(error({{"ratio", at("job.toml:5:1", std::numeric_limits<double>::quiet_NaN())}}),
            "config: job.toml:5:1: strategy.options.mine.ratio is nan, outside 0.0 … 1.0");
  EXPECT_EQ(error({{"reserve", at("job.toml:5:1", int64_t{-1})}}),
            "config: job.toml:5:1: strategy.options.mine.reserve is -1, not at least 0");
  EXPECT_EQ(error({{"reserve", at("job.toml:5:1", std::string("80 apples"))}}),
            "config: job.toml:5:1: strategy.options.mine.reserve is \"80 apples\", not a number of bytes, as 4096 or "
            "\"80 GiB\"");
  EXPECT_EQ(error({{"title", at("job.toml:5:1", int64_t{1})}}),
            "config: job.toml:5:1: strategy.options.mine.title is an integer, not a text");
  EXPECT_EQ(error({{"keep", at("job.toml:5:1", std::string("h.1"))}}),
            "config: job.toml:5:1: strategy.options.mine.keep is a text, not a list");
  EXPECT_EQ(error({{"keep", at("job.toml:5:1", OptionValue::List{at("job.toml:5:9", std::string("h.1")),
                                                                 at("job.toml:5:16", int64_t{2})})}}),
            "config: job.toml:5:16: strategy.options.mine.keep[1] is an integer, not a text");
  EXPECT_EQ(error({{"sizes", at("job.toml:5:1", OptionValue::List{at("job.toml:5:9", int64_t{65})})}}),
            "config: job.toml:5:9: strategy.options.mine.sizes[0] is 65, outside 1 … 64");
}

TEST(Options, AnUnknownOptionGetsTheNearestName) {
  EXPECT_EQ(error({{"ahed", at("job.toml:14:1", int64_t{1})}}),
            "config: job.toml:14:1: strategy.options.mine.ahed: mine has no such option (did you mean \"ahead\"?)");
  EXPECT_EQ(error({{"zzz", at("job.toml:14:1", int64_t{1})}}),
            "config: job.toml:14:1: strategy.options.mine.zzz: mine has no such option (its options are ahead, flag, "
            "keep, mode, ratio, reserve, sizes and title)");
  EXPECT_EQ(error({{"zzz", at("job.toml:14:1", int64_t{1})}}, {}),
            "config: job.toml:14:1: strategy.options.mine.zzz: mine has no such option (it has no options)");
}

TEST(Options, ARequiredOptionMustBeThere) {
  std::vector<OptionSpec> options = table();
  options[0].required = true;
  EXPECT_EQ(error({}, options),
            "config: job.toml:3:1: strategy.options.mine.ahead is missing; mine needs it (set it: integer, what ahead "
            "does)");
  EXPECT_EQ(error({{"ahead", at("job.toml:4:1", int64_t{2})}}, options), "no error");
}

TEST(Options, WhatPassesIsCompleteTypedAndInOrder) {
  const std::vector<OptionSpec> options = table();
  const OptionValues values = {
      {"mode", at("", std::string("free"))},
      {"ratio", at("", int64_t{1})},
      {"reserve", at("", std::string("80 GiB"))},
      {"keep", at("", OptionValue::List{at("", std::string("h.*")), at("", std::string("lm_head"))})},
  };
  const std::vector<OptionSetting> settings = check_options("mine", options, values, "");
  ASSERT_EQ(settings.size(), options.size());
  const SettingArray array(options, settings);
  ASSERT_EQ(array.size(), options.size());
  std::string all;
  for (std::size_t i = 0; i < settings.size(); ++i) {
    const reshard_setting& raw = array.data()[i];
    EXPECT_EQ(std::string(raw.name.data, raw.name.size), options[i].name);
    EXPECT_EQ(raw.value.type, options[i].type);
    EXPECT_EQ(raw.value.given, values.count(options[i].name));
    all += options[i].name + "=" + toml_text(settings[i]) + " ";
  }
  EXPECT_EQ(all,
            "ahead=1 flag=false keep=[\"h.*\", \"lm_head\"] mode=\"free\" ratio=1.0 reserve=\"80 GiB\" sizes=[] "
            "title=\"\" ");
  EXPECT_EQ(array.data()[2].value.item_count, 2u);
  EXPECT_EQ(array.data()[2].value.items[1].type, uint32_t{RESHARD_STRING});
  EXPECT_EQ(array.data()[3].value.integer, 1);  // the index of the choice
  EXPECT_EQ(array.data()[4].value.real, 1.0);   // an integer is a number
  EXPECT_EQ(array.data()[5].value.integer, int64_t{80} << 30);
}

TEST(Options, APlaceIsFoundForWhatAStrategyBlames) {
  const OptionValues values = {
      {"keep", at("job.toml:5:1", OptionValue::List{at("job.toml:5:9", std::string("a")), at("", std::string("b"))})},
      {"ahead", at("job.toml:6:1", int64_t{1})}};
  EXPECT_EQ(place_of(values, "ahead"), "job.toml:6:1");
  EXPECT_EQ(place_of(values, "keep"), "job.toml:5:1");
  EXPECT_EQ(place_of(values, "keep[0]"), "job.toml:5:9");
  EXPECT_EQ(place_of(values, "keep[1]"), "job.toml:5:1");
  EXPECT_EQ(place_of(values, "keep[7]"), "job.toml:5:1");
  EXPECT_EQ(place_of(values, "keep[x"), "job.toml:5:1");
  EXPECT_EQ(place_of(values, "ahead[0]"), "job.toml:6:1");
  EXPECT_EQ(place_of(values, "mode"), "");
}

TEST(Options, ADescriptionSaysTypeDefaultAndRange) {
  std::string all;
  for (const OptionSpec& option : table()) {
    const OptionInfo info = describe(option);
    all += info.name + " | " + info.type + " | " + info.fallback + " | " + info.range + "\n";
  }
  EXPECT_EQ(all,
            "ahead | integer | 1 | 0 … 8\n"
            "flag | bool | false | false or true\n"
            "keep | list of text | [] | \n"
            "mode | choice | \"keep\" | \"keep\" or \"free\"\n"
            "ratio | real | 0.5 | 0.0 … 1.0\n"
            "reserve | bytes | 0 | at least 0\n"
            "sizes | list of integer | [] | 1 … 64\n"
            "title | text | \"\" | \n");
}

}  // namespace
}  // namespace reshard::plugin
