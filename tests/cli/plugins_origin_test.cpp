// Where a strategy comes from and whether it may run, as a person asks and answers it: paths, why, pin, and jobs that trust
// more or less; and what a run writes down of it. By the commands of a toy program in this process.

#include "cli/plugins_origin.h"

#include <sys/stat.h>

#include <filesystem>

#include "reshard/text.h"
#include "tests/cli/run_app.h"

namespace reshard::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class Origin : public testing::Test {
 protected:
  AppRun run(const std::vector<std::string>& arguments) { return run_app(program_, arguments); }

  // A job with these lines in [plugins], its zero3 in a folder of its own.
  std::string job(const std::string& rules) {
    fs::create_directories(folder_.file("own"));
    fs::copy_file(std::string(RESHARD_BINARY_DIR) + "/plugins/zero3.so", folder_.file("own/zero3.so"),
                  fs::copy_options::skip_existing);
    return folder_.write("job.toml", job_text() + "[plugins]\npath = [\"" + folder_.file("own") + "\"]\nmanifest = \"" +
                                         folder_.file("manifest.json") + "\"\n" + rules);
  }

  Toy program_;
  Folder folder_;
};

TEST_F(Origin, WhyTellsEveryStepAndWhatDecides) {
  const std::string file = job("");
  const AppRun why = run({"plugins", "why", "zero3", file});
  EXPECT_EQ(why.code, 0) << why.err;
  const json steps = json::parse(run({"plugins", "why", "zero3", file, "--json", "-"}).out).at("steps");
  ASSERT_GE(steps.size(), 3U);
  EXPECT_EQ(steps[0].at("outcome"), "taken");
  EXPECT_EQ(steps[0].at("rule"), "[plugins].path");
  EXPECT_TRUE(steps[0].at("reason").get<std::string>().starts_with("zero3 1.0.0, ABI 1.0, sha256 "));
  EXPECT_EQ(steps[1].at("outcome"), "shadowed");
  EXPECT_EQ(steps[1].at("reason"), "by " + folder_.file("own/zero3.so"));
  EXPECT_EQ(steps[2].at("outcome"), "absent");
  EXPECT_TRUE(why.out.ends_with("\nzero3 is " + folder_.file("own/zero3.so") + "\n")) << why.out;

  const AppRun list = run({"plugins", "list", file}), all = run({"plugins", "list", file, "--all"});
  EXPECT_TRUE(list.out.ends_with("\n\n  1 shadowed file is left out; --all shows it\n")) << list.out;
  EXPECT_TRUE(base::glob_match("strategy * version  ABI * state * runs on hosts from  named by * sha256 * file",
                               all.out.substr(0, all.out.find('\n'))))
      << all.out;
  EXPECT_TRUE(all.out.ends_with("/plugins/zero3.so is shadowed by " + folder_.file("own/zero3.so") + "\n")) << all.out;
  const json listed = json::parse(run({"plugins", "list", file, "--json", "-"}).out);
  for (const json& one : listed.at("strategies")) {
    EXPECT_EQ(one.at("sha256").get<std::string>().size(), 64U);
    EXPECT_EQ(one.at("required_abi"), "1.0");
  }

  std::ofstream(folder_.file("own/zero3.so"), std::ios::trunc) << "no strategy";
  const AppRun refused = run({"plugins", "why", "zero3", file});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.out.find("refused   is not an ELF file (name a file that reshard_add_strategy has built) [elf.type]"),
            std::string::npos)
      << refused.out;
  EXPECT_TRUE(refused.out.ends_with("\nzero3 is refused: the first file of that name decides, whatever is in it\n"));
  const AppRun none = run({"plugins", "why", "zero9", file});
  EXPECT_EQ(none.code, 2);
  EXPECT_TRUE(none.out.ends_with("\nthere is no strategy zero9\n")) << none.out;
}

TEST_F(Origin, PathsAreListedInTheirOrder) {
  const std::string file = job("");
  const json folders = json::parse(run({"plugins", "paths", file, "--json", "-"}).out).at("folders");
  ASSERT_GE(folders.size(), 3U);
  EXPECT_EQ(folders[0], (json{{"path", folder_.file("own")}, {"rule", "[plugins].path"}, {"holds", "1 file"}}));
  EXPECT_EQ(folders.back().at("rule"), "installed");
  const AppRun text = run({"plugins", "paths", file});
  EXPECT_TRUE(text.out.starts_with("   folder")) << text.out;
}

TEST_F(Origin, RESHARD_PLUGIN_PATH_IsReadUnlessTheJobSaysNo) {
  ASSERT_EQ(setenv("RESHARD_PLUGIN_PATH", folder_.file("env").c_str(), 1), 0);
  const auto rules = [&](const std::string& file) {
    std::string all;
    const json paths = json::parse(run({"plugins", "paths", file, "--json", "-"}).out);
    for (const json& one : paths.at("folders")) all += one.at("rule").get<std::string>() + "; ";
    return all;
  };
  const std::string yes = rules(job("")), no = rules(job("env_path = false\n"));
  unsetenv("RESHARD_PLUGIN_PATH");
  EXPECT_TRUE(yes.starts_with("[plugins].path; RESHARD_PLUGIN_PATH; ")) << yes;
  EXPECT_EQ(no.find("RESHARD_PLUGIN_PATH"), std::string::npos) << no;
}

// What `pin` prints goes into a job that trusts pinned files alone; another byte, and the job stops.
TEST_F(Origin, APinnedJobRunsJustThoseBytes) {
  const std::string pinned = "trust = \"pinned\"\n";
  const AppRun bare = run({"explain", job(pinned)});
  EXPECT_EQ(bare.code, 2);
  EXPECT_NE(bare.err.find(" has no pin, and [plugins] trust = \"pinned\" (add [[plugins.pin]] with name = \"zero3\" and "),
            std::string::npos)
      << bare.err;
  const AppRun pin = run({"plugins", "pin", "zero3", job(pinned)});
  ASSERT_EQ(pin.code, 0) << pin.err;
  EXPECT_TRUE(pin.out.starts_with("# zero3 1.0.0, " + folder_.file("own/zero3.so") + "\n[[plugins.pin]]\n")) << pin.out;
  EXPECT_EQ(run({"explain", job(pinned + pin.out)}).code, 0);
  // It reads back: what --print-job prints is the same job.
  const std::string printed = run({"explain", job(pinned + pin.out), "--print-job"}).out;
  EXPECT_NE(printed.find(pin.out.substr(pin.out.find("[[plugins.pin]]"))), std::string::npos) << printed;

  std::ofstream(folder_.file("own/zero3.so"), std::ios::app | std::ios::binary) << 'x';
  const AppRun changed = run({"explain", job(pinned + pin.out)});
  EXPECT_EQ(changed.code, 2);
  EXPECT_NE(changed.err.find(" has the sha256 "), std::string::npos) << changed.err;
  EXPECT_TRUE(changed.err.ends_with(" [trust.pin]\n")) << changed.err;
}

TEST_F(Origin, APinMustBeAHash) {
  const AppRun bad = run({"explain", job("[[plugins.pin]]\nname = \"zero3\"\nsha256 = \"12ab\"\n")});
  EXPECT_EQ(bad.code, 2);
  EXPECT_NE(bad.err.find("job.toml:16:1: the pin of \"zero3\" has the sha256 \"12ab\", which is not 64 digits of 0-9 and a-f "
                         "(copy what `plugins pin zero3` prints)"),
            std::string::npos)
      << bad.err;
  const AppRun half = run({"explain", job("[[plugins.pin]]\nname = \"zero3\"\n")});
  EXPECT_NE(half.err.find("a [[plugins.pin]] entry has no sha256 (copy what `plugins pin NAME` prints)"), std::string::npos)
      << half.err;
}

TEST_F(Origin, AFileThatOthersMayChangeIsRefusedByItsIdAndLetInByAWord) {
  const std::string file = job("");
  ASSERT_EQ(chmod(folder_.file("own/zero3.so").c_str(), 0666), 0);
  const AppRun refused = run({"explain", file});
  EXPECT_EQ(refused.code, 2);
  EXPECT_TRUE(refused.err.ends_with(" may be written by every user (mode 0666) (run `chmod o-w " +
                                    folder_.file("own/zero3.so") +
                                    "`, or write trust = \"any\" in [plugins]) [trust.writable]\n"))
      << refused.err;
  EXPECT_EQ(run({"explain", file, "--set", "plugins.trust=\"any\""}).code, 0);
}

TEST_F(Origin, ARunWritesDownWhatItWasMadeOf) {
  const std::string file = job("");
  const AppRun train = run({"train", file, "--steps", "2"});
  ASSERT_EQ(train.code, 0) << train.err;
  EXPECT_NE(train.out.find(folder_.file("manifest.json")), std::string::npos) << train.out;
  const json manifest = json_of(folder_.file("manifest.json"));
  EXPECT_EQ(manifest.at("command"), (json{"bin/toy", "train", file, "--steps", "2"}));
  EXPECT_EQ(manifest.at("abi"), "1.0");
  ASSERT_EQ(manifest.at("strategies").size(), 1U);
  const json& zero3 = manifest.at("strategies")[0];
  EXPECT_EQ(zero3.at("name"), "zero3");
  EXPECT_EQ(zero3.at("file"), folder_.file("own/zero3.so"));
  EXPECT_EQ(zero3.at("sha256"), json::parse(run({"plugins", "pin", "zero3", file, "--json", "-"}).out).at("sha256"));
  EXPECT_EQ(zero3.at("options").at("prefetch_forward"), 1);
  const json explained = json::parse(run({"explain", file, "--json", "-"}).out);
  EXPECT_EQ(zero3.at("plan"), explained.at("plan").at("hash"));

  // A comparison's names every arm.
  ASSERT_EQ(run({"compare", file, "--strategies", "zero3,zero2", "--blocks", "1", "--block-steps", "2"}).code, 0);
  const json compared = json_of(folder_.file("manifest.json"));
  ASSERT_EQ(compared.at("strategies").size(), 2U);
  EXPECT_EQ(compared["strategies"][0], zero3);
  EXPECT_EQ(compared["strategies"][1].at("name"), "zero2");

  const AppRun nowhere = run({"train", file, "--steps", "2", "--set", "plugins.manifest=\"/proc/no/such.json\""});
  EXPECT_EQ(nowhere.code, 1);
  EXPECT_TRUE(nowhere.err.ends_with(
      ": the run's manifest cannot be written (name a file in [plugins] manifest; /dev/null keeps none)\n"))
      << nowhere.err;
}

}  // namespace
}  // namespace reshard::cli
