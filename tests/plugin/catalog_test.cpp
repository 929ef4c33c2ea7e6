// Which file a name means. The rule of search: the job's folders, the environment's, the one beside the program, the
// installed one; the first file of that name wins. Nothing is run: one of the files listed here aborts when it is.

#include "plugin/catalog.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>

#include "tests/plugin/files.h"

namespace reshard::plugin {
namespace {

Job::Plugins searching(const std::string& folder) {
  Job::Plugins rules;
  rules.path = {folder};
  return rules;
}


using tests::broken;
using tests::error_text;
using tests::kShipped;
using tests::read_bytes;
using tests::shipped;

class CatalogTest : public testing::Test {
 protected:
  void SetUp() override { unsetenv("RESHARD_PLUGIN_PATH"); }
  void TearDown() override { unsetenv("RESHARD_PLUGIN_PATH"); }
  tests::TemporaryFolder folder_;
};

TEST_F(CatalogTest, FoldersComeInTheOrderOfTheRule) {
  setenv("RESHARD_PLUGIN_PATH", "/first:/second/../third", 1);
  std::string all;
  for (const SearchFolder& folder : search_folders(searching("/job"))) all += folder.rule + " " + folder.path.string() + "\n";
  EXPECT_TRUE(
      all.starts_with("[plugins].path /job\n"
                      "RESHARD_PLUGIN_PATH /first\n"
                      "RESHARD_PLUGIN_PATH /third\n"
                      "beside the program " +
                      std::filesystem::canonical(RESHARD_BINARY_DIR).string() + "/plugins\ninstalled "))
      << all;
}

TEST_F(CatalogTest, RelativeAndEmptyEntriesAreErrors) {
  EXPECT_EQ(error_text([] { search_folders(searching("here")); }),
            "config: [plugins].path has the entry \"here\" (every entry must be an absolute path)");
  setenv("RESHARD_PLUGIN_PATH", "/first:", 1);
  EXPECT_EQ(error_text([] { search_folders(); }),
            "config: RESHARD_PLUGIN_PATH: has the entry \"\" (every entry must be an absolute path)");
  setenv("RESHARD_PLUGIN_PATH", "", 1);
  EXPECT_EQ(error_text([] { search_folders(); }), "no error");
}

TEST_F(CatalogTest, TheFirstFileOfTheNameWins) {
  const std::vector<SearchFolder> folders = {{folder_.path("a"), "first"}, {folder_.path("b"), "second"}};
  folder_.write("b/zero3.so", "x");
  EXPECT_EQ(find("zero3", folders).rule, "second");
  folder_.write("a/zero3.so", "not even a plugin");
  EXPECT_EQ(find("zero3", folders).file, folder_.path("a/zero3.so"));
}

// Loops over strategies go by the table: a folder that it lacks would be tested by none of them.
TEST(Shipped, TheTableOfStrategiesHasEveryFolderOfPlugins) {
  std::set<std::string> folders;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(RESHARD_SOURCE_DIR) + "/plugins"))
    if (entry.is_directory()) folders.insert(entry.path().filename().string());
  EXPECT_EQ(std::set<std::string>(std::begin(kShipped), std::end(kShipped)), folders);
}

TEST_F(CatalogTest, EveryShippedStrategyIsFoundBesideTheProgram) {
  for (const char* name : kShipped) {
    const Found found = find(name, search_folders());
    EXPECT_TRUE(std::filesystem::equivalent(found.file, shipped(name)));
    EXPECT_EQ(found.rule, "beside the program");
  }
}

TEST_F(CatalogTest, APathIsRelativeToItsBase) {
  folder_.write("deep/mine.so", "x");
  EXPECT_EQ(find("deep/mine.so", {}, "", folder_.path()).file, folder_.path("deep/mine.so"));
  EXPECT_EQ(find("mine.so", {}, "", folder_.path("deep")).file, folder_.path("deep/mine.so"));
  EXPECT_EQ(find("./deep/../deep/mine.so", {}, "", folder_.path()).file, folder_.path("deep/mine.so"));
  EXPECT_EQ(find(folder_.path("deep/mine.so"), {}).file, folder_.path("deep/mine.so"));
  EXPECT_EQ(error_text([&] { find("mine.so", {}, "job.toml:4:10", folder_.path()); }),
            "plugin: job.toml:4:10: there is no strategy " + folder_.path("mine.so") + " (check the path)");
}

TEST_F(CatalogTest, WhatIsNotFoundListsThePathsTried) {
  const std::vector<SearchFolder> folders = {{folder_.path("a"), "[plugins].path"}, {folder_.path("b"), "installed"}};
  EXPECT_EQ(error_text([&] { find("zero9", folders, "job.toml:4:10"); }),
            "plugin: job.toml:4:10: there is no strategy \"zero9\"; tried " + folder_.path("a/zero9.so") +
                " ([plugins].path) and " + folder_.path("b/zero9.so") +
                " (installed) (name its folder in [plugins].path or RESHARD_PLUGIN_PATH, or give the path of the "
                "file)");
  folder_.write("b/zero3.so", "x");
  EXPECT_EQ(error_text([&] { find("zero9", folders, "job.toml:4:10"); }),
            "plugin: job.toml:4:10: there is no strategy \"zero9\"; tried " + folder_.path("a/zero9.so") +
                " ([plugins].path) and " + folder_.path("b/zero9.so") + " (installed) (did you mean \"zero3\"?)");
}

// What is said is what would be typed: relative in the working directory, whole elsewhere.
TEST_F(CatalogTest, WhatIsSaidOfAPathCanBeTyped) {
  const std::string here = std::filesystem::current_path().string();
  EXPECT_EQ(short_path(here + "/a/zero9.so"), "a/zero9.so");
  EXPECT_EQ(short_path(here + "s/a/zero9.so"), here + "s/a/zero9.so");
  EXPECT_EQ(error_text([&] {
              find("zero9", {{here + "/none", "beside the program"}}, "--strategy");
            }),
            "plugin: --strategy: there is no strategy \"zero9\"; tried none/zero9.so (beside the program) (name its "
            "folder in [plugins].path or RESHARD_PLUGIN_PATH, or give the path of the file)");
  EXPECT_EQ(error_text([&] { find("./none/../none/mine.so", {}, "--strategy"); }),
            "plugin: --strategy: there is no strategy none/mine.so (check the path)");
}

TEST_F(CatalogTest, ListingSaysWhyAndRunsNothing) {
  folder_.write("a/zero3.so", read_bytes(shipped("zero3")));
  folder_.write("a/aborts.so", read_bytes(broken("aborts")));
  folder_.write("a/newer_host.so", read_bytes(broken("newer_host")));
  folder_.write("a/notes.txt", "no strategy");
  folder_.write("b/zero3.so", read_bytes(shipped("zero3")));
  folder_.write("b/text.so", "no strategy");
  std::string all;
  for (const Listed& item :
       list({{folder_.path("a"), "first"}, {folder_.path("none"), "second"}, {folder_.path("b"), "third"}}))
    all += item.name + "|" + item.version + "|" + item.abi + "|" + item.rule + "|" + name(item.state) + "|" +
           item.reason + "\n";
  EXPECT_EQ(all,
            "aborts|1.0.0|1.0|first|usable|\n"
            "newer_host|||first|refused|needs strategy ABI 1.7 or newer; this host has 1.0\n"
            "zero3|1.0.0|1.0|first|usable|\n"
            "text|||third|refused|is not an ELF file\n"
            "zero3|1.0.0|1.0|third|shadowed|by " +
                folder_.path("a/zero3.so") + "\n");
}

}  // namespace
}  // namespace reshard::plugin
