// Table on its own: one declaration, many readers. The checks that reading a file shares are in read_errors_test.

#include <limits>

#include <gtest/gtest.h>

#include "tests/config/program.h"

namespace reshard {
namespace {

using test::error_of;

TEST(Table, KeysInOrderOfDeclaration) {
  test::Network network;
  const Table table = test::network_tables(network)[0];
  EXPECT_EQ(table.keys(), (std::vector<std::string>{"layers", "units", "tied", "rate", "tokens", "scales", "names",
                                                    "range", "seed"}));
  EXPECT_TRUE(table.has("tied"));
  EXPECT_FALSE(table.has("path"));
  EXPECT_EQ(table.spec("layers").doc, "blocks");
}

TEST(Table, TextIsTheFieldAsItIsNow) {
  test::Network network;
  Tables tables = test::network_tables(network);
  network.layers = 9;
  network.units = "a \"b\"\n\x01";
  network.rate = 0.1;
  network.scales = {1, 1e-8, 1e300};
  EXPECT_EQ(tables[0].text("layers"), "9");
  EXPECT_EQ(tables[0].text("units"), R"("a \"b\"\n\u0001")");
  EXPECT_EQ(tables[0].text("tied"), "true");
  EXPECT_EQ(tables[0].text("rate"), "0.1");
  EXPECT_EQ(tables[0].text("scales"), "[1.0, 1e-08, 1e+300]");
  EXPECT_EQ(tables[0].text("names"), R"(["a"])");
  for (const auto& [bytes, text] : std::vector<std::pair<int64_t, std::string>>{{0, "0"},
                                                                                {1023, "1023"},
                                                                                {1024, "\"1 KiB\""},
                                                                                {int64_t{3} << 29, "\"1536 MiB\""},
                                                                                {int64_t{5} << 40, "\"5 TiB\""}}) {
    network.cache = bytes;
    EXPECT_EQ(tables[1].text("cache"), text);
  }
}

TEST(Table, AbsentOptionalHasNoText) {
  std::optional<int> over;
  std::optional<AllReduce> reduce;
  Table table("t", "");
  table.key("over", &over).key("reduce", &reduce);
  EXPECT_EQ(table.text("over"), "");
  EXPECT_EQ(table.text("reduce"), "");
  over = 0;
  reduce = AllReduce::each;
  EXPECT_EQ(table.text("over"), "0");
  EXPECT_EQ(table.text("reduce"), "\"each\"");
}

TEST(Table, RefusedValueLeavesTheField) {
  test::Network network;
  Tables tables = test::network_tables(network);
  EXPECT_EQ(error_of([&] {
              tables[0].set("layers", {int64_t{0}, "here"}, "");
            }),
            "here: model.layers must be between 1 and 1000, not 0");
  OptionValue list{OptionValue::List{{1.0, "x"}, {-1.0, "x"}}, "here"};
  EXPECT_EQ(error_of([&] { tables[0].set("scales", list, ""); }),
            "here: model.scales must be a list of numbers 0 or more, not -1");
  EXPECT_EQ(network, test::Network{});
  EXPECT_EQ(tables[0].where("layers"), "default");
  tables[0].set("layers", {int64_t{5}, "here"}, "");
  EXPECT_EQ(network.layers, 5);
  EXPECT_EQ(tables[0].where("layers"), "here");
}

TEST(Table, CheckOfFieldsFilledInCode) {
  test::Network network;
  Tables tables = test::network_tables(network);
  tables[0].check();
  network.rate = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(error_of([&] { tables[0].check(); }), "model.rate must be a finite number, not nan");
  network.rate = 0.5;
  network.units = "x";
  EXPECT_EQ(error_of([&] { tables[0].check(); }), R"(model.units must be "root" or "split", not "x")");
  tables[0].came_from("units", "my.cpp");
  EXPECT_EQ(error_of([&] { tables[0].check(); }), R"(my.cpp: model.units must be "root" or "split", not "x")");
}

TEST(Table, IntegersOfEachWidth) {
  test::Network network;
  Tables tables = test::network_tables(network);
  const int64_t most = std::numeric_limits<int64_t>::max(), least = std::numeric_limits<int64_t>::min();
  tables[0].set("seed", {most, "x"}, "");
  EXPECT_EQ(network.seed, static_cast<uint64_t>(most));
  network.seed = std::numeric_limits<uint64_t>::max();
  EXPECT_EQ(
      error_of([&] { tables[0].check(); }),
      "x: model.seed must be at most 9223372036854775807, not 18446744073709551615 (that is the largest integer of "
      "TOML)");
  network.seed = 1;
  tables[0].set("tokens", {most, "x"}, "");
  EXPECT_EQ(network.tokens, most);
  EXPECT_EQ(error_of([&] {
              tables[0].set("seed", {int64_t{-1}, "x"}, "");
            }),
            "x: model.seed must be between 0 and 9223372036854775807, not -1");
  EXPECT_EQ(error_of([&] {
              tables[0].set("tokens", {least, "x"}, "");
            }),
            "x: model.tokens must be -5 or more, not -9223372036854775808");
  int plain = 0;
  Table table("t", "");
  table.key("plain", &plain);
  EXPECT_EQ(error_of([&] {
              table.set("plain", {int64_t{1} << 31, "x"}, "");
            }),
            "x: t.plain must be between -2147483648 and 2147483647, not 2147483648");
}

TEST(JobCheck, CodeIsCheckedLikeAFile) {
  Job job;
  check(job);
  EXPECT_EQ(error_of([&] { require_plugin(job); }),
            R"(no strategy is given (write plugin = "NAME" in [strategy], or give --strategy NAME))");
  job.strategy.plugin = "acme";
  require_plugin(job);
  job.mesh.timeout = -1;
  EXPECT_EQ(error_of([&] { check(job); }), "mesh.timeout must be above 0 and at most 1000000, not -1");
  job.mesh.timeout = 1;
  job.strategy.units.push_back({.match = "h.*", .where = "", .prefetch_forward = Given<int>{9}});
  EXPECT_EQ(error_of([&] { check(job); }), "strategy.unit.prefetch_forward must be between 0 and 8, not 9");
  job.strategy.units = {{.match = "h.*", .where = "", .after_forward = Given<AfterForward>{AfterForward::shrink(0)}}};
  EXPECT_EQ(error_of([&] { check(job); }), "strategy.unit.after_forward must be between 1 and 65536, not 0");
  job.strategy.units.clear();
  job.strategy.switches = {{.at_step = 5, .plugin = "a", .options = {}, .where = ""},
                           {.at_step = 4, .plugin = "b", .options = {}, .where = ""}};
  EXPECT_EQ(error_of([&] { check(job); }),
            "strategy.switch.at_step must rise from entry to entry, but 4 comes after 5 (write the entries in the "
            "order of their steps)");
}

TEST(JobCheckDeathTest, DeclarationsAreProgrammersBusiness) {
  int field = 0;
  Table table("t", "");
  table.key("a", &field);
  EXPECT_DEATH(table.key("a", &field), "a key is declared once");
  EXPECT_DEATH(table.key("A b", &field), "a key's name is of");
  Tables program;
  program.emplace_back("train", "");
  Job job;
  EXPECT_DEATH(config::read_text("", "x", job, program), "a program's table has a name of its own");
}

}  // namespace
}  // namespace reshard
