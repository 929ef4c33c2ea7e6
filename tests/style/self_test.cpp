// Every rule rejects what it is there for, at the right line, and accepts what is right beside it. A case without
// places is a tree that the rule must accept.

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/style/rules.h"

namespace reshard::style {
namespace {

struct Case {
  std::string rule;
  std::map<std::string, std::string> files;
  std::vector<std::string> places;  // "file:line", sorted
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.rule << ": " << (c.files.empty() ? "" : c.files.begin()->second);
}

std::vector<Case> order_cases() {
  return {
      {"include-order",
       {{"core/model/a.cpp", "#include <vector>\n#include \"base/check.h\"\n#include \"schedule/op.h\"\n"}},
       {"core/model/a.cpp:3"}},
      {"include-order", {{"core/base/a.h", "#include \"model/b.h\"\n"}}, {"core/base/a.h:1"}},
      {"include-order", {{"core/model/a.h", "#include \"device/device.h\"\n"}}, {"core/model/a.h:1"}},
      {"include-order", {{"core/engine/a.cpp", "#include \"sim/b.h\"\n"}}, {"core/engine/a.cpp:1"}},
      {"include-order", {{"core/sim/a.cpp", "#include \"engine/b.h\"\n"}}, {"core/sim/a.cpp:1"}},
      {"include-order", {{"core/schedule/a.cpp", "#include \"reshard/runtime.h\"\n"}}, {"core/schedule/a.cpp:1"}},
      {"include-order",
       {{"core/include/reshard/model.h", "#include \"reshard/job.h\"\n"}},
       {"core/include/reshard/model.h:1"}},
      {"include-order",
       {{"core/include/reshard/model.h", "#include \"base/check.h\"\n"}},
       {"core/include/reshard/model.h:1"}},
      {"include-order", {{"core/include/reshard/unheard_of.h", ""}}, {"core/include/reshard/unheard_of.h:1"}},
      {"include-order", {{"core/shiny/a.h", ""}}, {"core/shiny/a.h:1"}},
      {"include-order", {{"core/cli/a.cpp", "#include \"b.h\"\n"}}, {"core/cli/a.cpp:1"}},
      {"include-order",
       {{"core/comm/local/a.cpp", "#include \"comm/a.h\"\n#include \"device/b.h\"\n#include \"reshard/error.h\"\n"},
        {"core/cli/a.cpp", "#include \"sim/a.h\"\n#include \"engine/a.h\"\n// #include \"nothing/a.h\"\n"}},
       {}},
  };
}

std::vector<Case> include_cases() {
  const std::string abi = "#pragma once\n// ABI\n#define RESHARD_HAS(p, m) 1\nstruct reshard_plugin { int size; };\n";
  return {
      {"example-includes",
       {{"core/base/math.h", ""},
        {"core/include/reshard/app.h", ""},
        {"examples/mine/net.h", ""},
        {"examples/mine/main.cpp",
         "#include <vector>\n#include <fmt/format.h>\n#include \"net.h\"\n#include \"reshard/app.h\"\n"
         "#include \"base/math.h\"\n#include <base/math.h>\n#include \"reshard/engine.h\"\n"}},
       {"examples/mine/main.cpp:5", "examples/mine/main.cpp:6", "examples/mine/main.cpp:7"}},
      {"example-includes",
       {{"sdk/include/reshard/strategy.hpp", ""}, {"examples/own/a.cpp", "#include <reshard/strategy.hpp>\n"}},
       {}},
      {"sdk-includes",
       {{"sdk/include/reshard/strategy.hpp", "#include <string>\n#include <fmt/format.h>\n"}},
       {"sdk/include/reshard/strategy.hpp:2"}},
      {"sdk-includes",
       {{"sdk/include/reshard/plugin.h", "#include <stdint.h>\n#include <string>\n"}},
       {"sdk/include/reshard/plugin.h:2"}},
      {"sdk-includes",
       {{"plugins/acme_mine/acme_mine.cpp", "#include <vector>\n#include \"strategy/plan.h\"\n"}},
       {"plugins/acme_mine/acme_mine.cpp:2"}},
      {"sdk-includes",
       {{"plugins/acme_mine/acme_mine.cpp", "#include \"reshard/job.h\"\n"}, {"core/include/reshard/job.h", ""}},
       {"plugins/acme_mine/acme_mine.cpp:1"}},
      {"sdk-includes",
       {{"plugins/acme_mine/acme_mine.cpp",
         "#include <vector>\n#include <reshard/strategy.hpp>\n#include \"order.h\"\n"},
        {"plugins/acme_mine/order.h", ""},
        {"sdk/include/reshard/strategy.hpp", "#include <cstdint>\n"}},
       {}},
      {"abi-home",
       {{"sdk/include/reshard/plugin.h", abi},
        {"core/engine/a.cpp", "#include \"reshard/plugin.h\"\nreshard_plugin p;\nint a = RESHARD_HAS(p, m);\n"}},
       {"core/engine/a.cpp:1", "core/engine/a.cpp:2", "core/engine/a.cpp:3"}},
      {"abi-home", {{"core/cli/a.cpp", "#include \"reshard/strategy.hpp\"\n"}}, {"core/cli/a.cpp:1"}},
      {"abi-home",
       {{"sdk/include/reshard/plugin.h", abi},
        {"core/plugin/a.cpp", "#include \"reshard/plugin.h\"\nreshard_plugin p;\n"},
        {"core/config/a.cpp", "bool reshard_after_forward = true;  // reshard_plugin\n"}},
       {}},
      {"third-party-home", {{"core/cli/a.cpp", "#include <toml++/toml.h>\n"}}, {"core/cli/a.cpp:1"}},
      {"third-party-home",
       {{"core/plugin/catalog.cpp", "#include <boost/dll/shared_library.hpp>\n"}},
       {"core/plugin/catalog.cpp:1"}},
      {"third-party-home",
       {{"core/comm/local/a.cpp", "#include <mpi.h>\n"}, {"core/memory/a.cpp", "#include <cuda_runtime.h>\n"}},
       {"core/comm/local/a.cpp:1", "core/memory/a.cpp:1"}},
      {"third-party-home",
       {{"core/optim/a.cpp", "#include <cblas.h>\n"}, {"examples/gpt/a.cpp", "#include <nccl.h>\n"}},
       {"core/optim/a.cpp:1", "examples/gpt/a.cpp:1"}},
      {"third-party-home",
       {{"core/engine/a.cpp", "#include <gtest/gtest.h>\n#include <CLI/CLI.hpp>\n"}},
       {"core/engine/a.cpp:1", "core/engine/a.cpp:2"}},
      {"third-party-home",
       {{"core/config/a.cpp", "#include <toml++/toml.h>\n"},
        {"core/plugin/library.cpp", "#include <boost/dll/shared_library.hpp>\n"},
        {"core/comm/nccl/a.cpp", "#include <nccl.h>\n#include <cuda_runtime.h>\n"},
        {"examples/gpt/a.cpp", "#include <cblas.h>\n"}},
       {}},
  };
}

std::vector<Case> word_cases() {
  const std::map<std::string, std::string> strategies = {
      {"plugins/zero9/zero9.cpp", ""}, {"plugins/duplicate/duplicate.cpp", ""}, {"plugins/CMakeLists.txt", ""}};
  const auto with = [&](std::string path, std::string text) {
    auto files = strategies;
    files[std::move(path)] = std::move(text);
    return files;
  };
  return {
      {"strategy-name", with("core/engine/a.cpp", "int a;\nif (name == \"zero9\") {}\n"), {"core/engine/a.cpp:2"}},
      {"strategy-name",
       with("core/engine/a.cpp", "auto s = \"try 'zero9', say\";\nclass Zero9Plan;\nint kZero9;\n"),
       {"core/engine/a.cpp:1", "core/engine/a.cpp:2", "core/engine/a.cpp:3"}},
      {"strategy-name",
       with("core/engine/a.cpp", "auto a = \"duplicate\";\nvoid duplicate();\n"),
       {"core/engine/a.cpp:1", "core/engine/a.cpp:2"}},
      {"strategy-name",
       with("core/engine/a.cpp", "// zero9 frees.\nauto a = \"a duplicate key\";\nint duplicates, zero;\n"),
       {}},
      {"strategy-name", with("tests/engine/a_test.cpp", "auto a = \"zero9\";\n"), {}},
      {"words",
       {{"core/comm/a.cpp", "int world_size;\nauto a = \"bucket 3\";\nint sizeOfWorld;\n"}},
       {"core/comm/a.cpp:1", "core/comm/a.cpp:2", "core/comm/a.cpp:3"}},
      {"words", {{"core/comm/a.cpp", "int worldwide = MPI_COMM_WORLD;  // the world\n"}, {"tests/comm/a_test.cpp", "int world;\n"}}, {}},
      {"prints",
       {{"core/engine/a.cpp",
         "void f() {\n  std::cout << 1;\n  printf(\"a\");\n  fmt::print(\"a\");\n  std::fprintf(file, \"a\");\n}\n"}},
       {"core/engine/a.cpp:2", "core/engine/a.cpp:3", "core/engine/a.cpp:4", "core/engine/a.cpp:5"}},
      {"prints",
       {{"plugins/zero9/zero9.cpp", "int a = std::puts(\"a\");\n"},
        {"sdk/include/reshard/strategy.hpp", "auto& a = std::cerr;\n"}},
       {"plugins/zero9/zero9.cpp:1", "sdk/include/reshard/strategy.hpp:1"}},
      {"prints",
       {{"core/cli/a.cpp", "fmt::print(\"a\");\n"},
        {"core/engine/a.cpp", "snprintf(a, 3, \"b\");\nblueprint.print(1);  // std::cout\n"},
        {"tests/bench/a.cpp", "printf(\"a\");\n"}},
       {}},
      {"backend-switch",
       {{"core/comm/a.cpp",
         "int a;\n#ifdef RESHARD_WITH_MPI\n#endif\n#if __has_include(<nccl.h>)\n#endif\n#if 0\n#elif "
         "defined(USE_CUDA)\n#endif\n"}},
       {"core/comm/a.cpp:2", "core/comm/a.cpp:4", "core/comm/a.cpp:4", "core/comm/a.cpp:4", "core/comm/a.cpp:7"}},
      {"backend-switch",
       {{"core/optim/a.cpp", "#if defined(__x86_64__) && !defined(__clang__)\n#endif\n// #ifdef USE_CUDA\n"},
        {"sdk/include/reshard/plugin.h", "#ifndef RESHARD_PLUGIN_H\n#define RESHARD_PLUGIN_H\n#endif\n"}},
       {}},
  };
}

std::vector<Case> shape_cases() {
  const auto lines = [](int n) {
    std::string text;
    for (int i = 0; i < n; ++i) text += "  g();\n";
    return text;
  };
  return {
      {"mutable-global",
       {{"core/engine/a.cpp", "namespace reshard {\nint steps = 0;\nvoid f() {\n  static int calls;\n}\n}\n"}},
       {"core/engine/a.cpp:2", "core/engine/a.cpp:4"}},
      {"mutable-global",
       {{"examples/gpt/a.cpp", "thread_local int rank;\n"}, {"plugins/zero9/zero9.cpp", "static const char* last;\n"}},
       {"examples/gpt/a.cpp:1", "plugins/zero9/zero9.cpp:1"}},
      {"mutable-global",
       {{"core/engine/a.cpp", "constexpr int kSteps = 3;\nstatic const std::string kName = \"a\";\nint f();\n"},
        {"tests/engine/a_test.cpp", "int calls = 0;\n"}},
       {}},
      {"file-length",
       {{"core/engine/a.cpp", lines(401)}, {"tests/engine/b_test.cpp", lines(400)}},
       {"core/engine/a.cpp:401"}},
      {"file-length", {{"tests/CMakeLists.txt", lines(401)}}, {"tests/CMakeLists.txt:401"}},
      {"file-length", {{"core/engine/a.cpp", lines(400)}, {"README.md", lines(500)}}, {}},
      {"function-length",
       {{"core/engine/a.cpp", "int a;\n\nvoid f(int b) {\n" + lines(69) + "}\n"}},
       {"core/engine/a.cpp:3"}},
      {"function-length",
       {{"tests/engine/a_test.cpp", "struct X {\n  void f() const\n  {\n" + lines(68) + "  }\n};\n"}},
       {"tests/engine/a_test.cpp:2"}},
      {"function-length",
       {{"core/engine/a.cpp",
         "void f() {\n" + lines(68) + "}\nvoid g() {\n" + lines(68) + "}\nstruct X {\n" + lines(0) + "};\n"}},
       {}},
      {"header", {{"core/engine/a.h", "// What it is.\nint f();\n"}}, {"core/engine/a.h:1"}},
      {"header", {{"core/engine/a.h", "#pragma once\n\n#include <vector>\n\n// What it is.\n"}}, {"core/engine/a.h:1"}},
      {"header", {{"core/engine/a.h", "#pragma once\n\nint f();  // f\n"}}, {"core/engine/a.h:1"}},
      {"header",
       {{"core/engine/a.h", "#pragma once\n\n// What it is.\n\n#include <vector>\n"},
        {"sdk/include/reshard/plugin.h", "/* What it is. */\n#ifndef A\n#define A\n#endif\n"}},
       {}},
      {"header",
       {{"core/engine/a.h", "// What it is.\n#ifndef A\n#define A\n#endif\n"},
        {"sdk/include/reshard/a.h", "// What it is.\n#ifndef A\n#define B\n#endif\n"}},
       {"core/engine/a.h:1", "sdk/include/reshard/a.h:1"}},
  };
}

std::vector<Case> file_cases() {
  return {
      {"test-listed",
       {{"tests/engine/a_test.cpp", ""},
        {"tests/engine/CMakeLists.txt", "reshard_test(b SOURCES b_test.cpp)\n# a_test.cpp\n"}},
       {"tests/engine/a_test.cpp:1"}},
      {"test-listed",
       {{"tests/engine/a_test.cpp", ""}, {"tests/engine/CMakeLists.txt", "reshard_test(b SOURCES aa_test.cpp)\n"}},
       {"tests/engine/a_test.cpp:1"}},
      {"test-listed",
       {{"tests/engine/a_test.cpp", ""},
        {"tests/engine/CMakeLists.txt", "reshard_test(a SOURCES a_test.cpp)\n"},
        {"tests/comm/local/b_test.cpp", ""},
        {"tests/comm/CMakeLists.txt", "reshard_test(b SOURCES local/b_test.cpp)\n"}},
       {}},
      {"file-name",
       {{"core/base/string_utils.h", ""}, {"core/common/a.h", ""}, {"sdk/helper.cpp", ""}},
       {"core/base/string_utils.h:1", "core/common/a.h:1", "sdk/helper.cpp:1"}},
      {"file-name",
       {{"core/base/Text.h", ""}, {"core/base/my-text.h", ""}},
       {"core/base/Text.h:1", "core/base/my-text.h:1"}},
      {"file-name", {{"core/comm/communicator.h", ""}, {"README.md", ""}, {"tests/CMakeLists.txt", ""}}, {}},
      {"dead-link",
       {{"README.md", "See\n[the SDK](sdk/README.md) and [that](docs/gone.md#part).\n"},
        {"sdk/README.md", "[up](../READ.md)\n"}},
       {"README.md:2", "sdk/README.md:1"}},
      {"dead-link", {{"README.md", "[absolute](/sdk/README.md)\n"}, {"sdk/README.md", ""}}, {"README.md:1"}},
      {"dead-link",
       {{"README.md",
         "[a](sdk/README.md#top) [b](sdk/) [c](#here) [d](https://example.org/x)\n`[&](int a)`\n```cpp\nf([&](int a) "
         "{});\n```\n"},
        {"sdk/README.md", "[up](../README.md)\n"}},
       {}},
      {"machine-path",
       {{"README.md",
         "a\ncd /wo"
         "rk/main\n"},
        {"core/a.cpp",
         "// /ho"
         "me/me/x\n"}},
       {"README.md:2", "core/a.cpp:1"}},
      {"machine-path",
       {{"README.md",
         "cd somewo"
         "rk/main; cd network/wo"
         "rk/a; ls /usr/include\n"}},
       {}},
  };
}

std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (const auto& some : {order_cases(), include_cases(), word_cases(), shape_cases(), file_cases()})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

class Self : public testing::TestWithParam<Case> {};

TEST_P(Self, FindsExactlyThesePlaces) {
  const Tree tree = make_tree(GetParam().files);
  for (const Rule& rule : rules()) {
    if (rule.name != GetParam().rule) continue;
    std::vector<std::string> places;
    for (const Finding& finding : rule.check(tree)) {
      EXPECT_EQ(finding.rule, rule.name);
      EXPECT_FALSE(finding.remedy.empty());
      places.push_back(finding.file + ":" + std::to_string(finding.line));
    }
    std::sort(places.begin(), places.end());
    EXPECT_EQ(places, GetParam().places);
    return;
  }
  FAIL() << "no rule is named " << GetParam().rule;
}

INSTANTIATE_TEST_SUITE_P(Cases, Self, testing::ValuesIn(all_cases()));

TEST(Rules, EachHasACaseThatItRejectsAndOneThatItAccepts) {
  for (const Rule& rule : rules())
    for (const bool rejected : {true, false}) {
      const std::vector<Case> all = all_cases();
      EXPECT_TRUE(std::any_of(all.begin(), all.end(),
                              [&](const Case& c) { return c.rule == rule.name && c.places.empty() != rejected; }))
          << rule.name << (rejected ? " rejects nothing" : " accepts nothing");
    }
}

TEST(Finding, NamesThePlaceTheRuleAndTheRemedy) {
  const std::vector<Finding> found =
      check_include_order(make_tree({{"core/model/a.cpp", "\n#include \"schedule/op.h\"\n"}}));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].text(),
            "core/model/a.cpp:2: include-order: model may include only itself and what stands left of it, and "
            "\"schedule/op.h\" belongs to schedule; move the code or pass a value");
}

}  // namespace
}  // namespace reshard::style
