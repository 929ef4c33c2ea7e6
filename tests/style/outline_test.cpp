// The outline sees the shapes that this repository's code has: where functions end, and which variables can change.

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/style/outline.h"

namespace reshard::style {
namespace {

std::vector<std::pair<int, int>> functions_of(const std::string& text) {
  std::vector<std::pair<int, int>> spans;
  for (const Function& function : outline(read_source("core/a.cpp", text)).functions)
    spans.emplace_back(function.first_line, function.last_line);
  return spans;
}

std::vector<std::string> mutables_of(const std::string& text) {
  std::vector<std::string> names;
  for (const Variable& variable : outline(read_source("core/a.cpp", text)).mutables) names.push_back(variable.text);
  return names;
}

using Spans = std::vector<std::pair<int, int>>;
using Names = std::vector<std::string>;

TEST(Outline, FindsFunctionsAtNamespaceAndClassLevel) {
  EXPECT_EQ(functions_of("int f(int a = 3) {\n  return a;\n}\n"), (Spans{{1, 3}}));
  EXPECT_EQ(functions_of("namespace a {\nstruct X : Y<int> {\n int g() const { return 1; }\n};\n}\n"), (Spans{{3, 3}}));
  EXPECT_EQ(functions_of("template <class T = int>\nauto f(T t) -> std::vector<T>\n{\n}\n"), (Spans{{1, 4}}));
  EXPECT_EQ(functions_of("bool operator==(const X& a, const X& b) {\n}\n"), (Spans{{1, 2}}));
  EXPECT_EQ(functions_of("template <class T>\nbool operator<(const X<T>& a, const X<T>& b) {\n}\n"), (Spans{{1, 3}}));
  EXPECT_EQ(functions_of("extern \"C\" {\nvoid f(void) {\n}\n}\n"), (Spans{{2, 3}}));
  EXPECT_EQ(functions_of("TEST(A, B) {\n  EXPECT_EQ(f({1, 2}), 3);\n}\n"), (Spans{{1, 3}}));
}

TEST(Outline, KeepsConstructorsWithMemberInitialisersTogether) {
  EXPECT_EQ(functions_of("X::X(int a)\n    : a_(a), b_{2}, c_{} {\n  f();\n}\nvoid g() {}\n"), (Spans{{1, 4}, {5, 5}}));
  EXPECT_EQ(functions_of("struct X {\n public:\n  explicit X(int a) : a_{a} {}\n  int a_{0};\n};\n"), (Spans{{3, 3}}));
}

TEST(Outline, CountsALambdaIntoTheFunctionAroundItAndANamedOneAsAFunction) {
  EXPECT_EQ(functions_of("void f() {\n  g([] {\n    h();\n  });\n}\n"), (Spans{{1, 5}}));
  EXPECT_EQ(functions_of("const auto f = [](int a) {\n  return a;\n};\n"), (Spans{{1, 3}}));
}

TEST(Outline, TellsAMacroThatStandsAloneFromTheHeadOfATest) {
  EXPECT_EQ(functions_of("RESHARD_STRATEGY(X, \"x\",\n  \"1.0\")\n\nnamespace {\nvoid f() {\n}\n}\n"), (Spans{{5, 6}}));
  EXPECT_EQ(functions_of("TEST(A, B)\n{\n}\n"), (Spans{{1, 3}}));
}

TEST(Outline, IgnoresBracesInTextMacrosAndComments) {
  EXPECT_EQ(functions_of("#define BEGIN {\nvoid f() {\n  g(\"}\", '}', R\"(}})\");  // }\n  /* } */\n}\n"),
            (Spans{{2, 5}}));
  EXPECT_EQ(functions_of("void f() {\n  g(1'000'000, '{');\n}\n"), (Spans{{1, 3}}));
}

TEST(Outline, FindsWhatCanChangeAndLivesAsLongAsTheProcess) {
  EXPECT_EQ(mutables_of("int counter = 0;\n"), (Names{"int counter"}));
  EXPECT_EQ(mutables_of("namespace {\nstd::atomic<int> ready{0};\n}\n"), (Names{"std::atomic ready"}));
  EXPECT_EQ(mutables_of("static const char* text = \"a\";\n"), (Names{"static const char* text"}));
  EXPECT_EQ(mutables_of("void f() {\n  static std::mutex mutex;\n}\n"), (Names{"static std::mutex mutex"}));
  EXPECT_EQ(mutables_of("void f() {\n  static int n(3);\n}\n"), (Names{"static int n(3)"}));
  EXPECT_EQ(mutables_of("void f() {\n  thread_local std::string text;\n}\n"), (Names{"thread_local std::string text"}));
  EXPECT_EQ(mutables_of("struct X {\n  static int n;\n  inline static X* one = nullptr;\n};\n"),
            (Names{"static int n", "inline static X* one"}));
  EXPECT_EQ(mutables_of("extern int counter;\n"), (Names{"extern int counter"}));
}

TEST(Outline, LeavesConstantsDeclarationsAndMembersAlone) {
  for (const char* text : {
           "constexpr int kSize = 3;\n",
           "static constexpr const char* kNames[] = {\"a\", \"b\"};\n",
           "static const char* const kText = \"a\";\n",
           "const std::vector<const char*> all = {\"a\"};\n",
           "extern \"C\" const reshard_plugin reshard_plugin_v1 = {1, 2};\n",
           "int f();\nstatic int g(int a = 3);\n",
           "using Names = std::vector<int>;\nnamespace fs = std::filesystem;\nclass X;\nenum class Y : int;\n",
           "struct X {\n  int a = 0;\n  static X make();\n  static constexpr int k = 1;\n  bool operator==(const X&) "
           "const = default;\n};\n",
           "void f() {\n  int a = 0;\n  static const auto table = make({1, 2});\n  static_assert(sizeof(a) == 4);\n}\n",
           "INSTANTIATE_TEST_SUITE_P(A, B, testing::Values(X{1, 2}, X{3, 4}));\n",
       })
    EXPECT_EQ(mutables_of(text), Names{}) << text;
}

}  // namespace
}  // namespace reshard::style
