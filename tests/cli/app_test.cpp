// The commands of reshard::app on a toy: what they print, what --json holds, and how they end.

#include <gtest/gtest.h>

#include "cli/command.h"
#include "tests/cli/run_app.h"

namespace reshard::cli {
namespace {

using nlohmann::json;

std::vector<std::string> hex_losses(const json& run) {
  std::vector<std::string> out;
  for (const json& step : run.at("steps")) out.push_back(step.at("loss_hex"));
  return out;
}

TEST(Train, ShowsTheRunFromItsPlanToItsPrice) {
  Toy toy;
  const Folder folder;
  const AppRun run = run_app(toy, {"train", folder.write("job.toml", job_text())});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(run.err, "");
  for (const char* part : {"toy: learns three numbers\n", "\n  model           three numbers\n",
                           "\n   step       loss  gradient norm", "words/s", "  validation ", "\n6 steps in ",
                           "\ntraffic, first rank  count", "\npeak of the fullest rank  predicted  measured\n",
                           "\npeak RSS of the process: ", "\nsample\n  a toy's word\n"})
    EXPECT_NE(run.out.find(part), std::string::npos) << part << " in\n" << run.out;
  EXPECT_EQ(lines(run.out).back(),
            "next: bin/toy compare " + folder.file("job.toml") + " --strategies zero3,zero2,zero1 --steps 15");
}

TEST(Train, JsonHoldsEverythingThatTheTablesShow) {
  Toy toy;
  const Folder folder;
  const AppRun run =
      run_app(toy, {"train", folder.write("job.toml", job_text()), "--json", folder.file("run.json"), "--steps", "5"});
  ASSERT_EQ(run.code, 0) << run.err;
  const json out = json_of(folder.file("run.json"));
  ASSERT_EQ(out.at("steps").size(), 5U);
  for (std::size_t s = 0; s < 5; ++s) {
    const json& step = out["steps"][s];
    EXPECT_EQ(step.at("step"), s);
    EXPECT_EQ(step.at("loss").get<double>(), std::strtod(step.at("loss_hex").get<std::string>().c_str(), nullptr));
    EXPECT_EQ(step.at("gradient_norm").get<double>(),
              std::strtod(step.at("gradient_norm_hex").get<std::string>().c_str(), nullptr));
    EXPECT_GT(step.at("seconds").get<double>(), 0.0);
  }
  EXPECT_EQ(out.at("loss_hex_format"), "fp64, as printf %a writes it");
  ASSERT_EQ(out.at("validation").size(), 2U);  // after 3 steps and at the end
  EXPECT_EQ(out["validation"][0].at("steps_done"), 3);
  EXPECT_EQ(out["validation"][1].at("steps_done"), 5);
  const json& phase = out.at("memory").at("phases").at(0);
  EXPECT_EQ(phase.at("predicted").at("total"), phase.at("measured").at("total"));
  EXPECT_EQ(phase.at("predicted").at("by_category").size(), 6U);
  EXPECT_GT(out["memory"].at("peak_resident_bytes").get<int64_t>(), 0);
  EXPECT_EQ(out.at("plan").at("strategy"), "zero3");
  EXPECT_EQ(out["plan"].at("hash"), out.at("report").at("plan_hash"));
  EXPECT_EQ(out["plan"].at("units").at(1).at("after_forward").at("value"), "free");
  EXPECT_EQ(out["plan"]["units"][1]["after_forward"].at("by"), "plugin zero3");
  EXPECT_EQ(out.at("traffic").at("reduce").at("count"),
            5 * out.at("traffic_per_step_predicted").at("reduce").at("count").get<int>());
  EXPECT_EQ(out.at("job").at("train").at("steps"), 5);
  EXPECT_EQ(out["job"].at("where").at("train.steps"), "--steps");
  EXPECT_EQ(out["job"].at("model").at("depth"), 2);
  EXPECT_EQ(out["job"].at("optimizer").at("schedule").at("name"), "constant");
  EXPECT_EQ(out.at("sample"), "a toy's word\n");
  EXPECT_EQ(out.at("facts").at("model"), "three numbers");
  EXPECT_FALSE(out.at("interrupted"));
  EXPECT_FALSE(out.contains("error"));
}

TEST(Train, JsonOnStdoutStandsThereAlone) {
  Toy toy;
  const Folder folder;
  const std::string job = folder.write("job.toml", job_text());
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"train", job},
        {"explain", job},
        {"explain", job, "--strategies", "zero3,zero2"},
        {"compare", job, "--strategies", "zero3,zero2", "--blocks", "1", "--block-steps", "2"},
        {"plugins", "list"},
        {"plugins", "describe", "zero3"}}) {
    std::vector<std::string> arguments = command;
    arguments.insert(arguments.end(), {"--json", "-"});
    const AppRun run = run_app(toy, arguments);
    EXPECT_EQ(run.code, 0) << run.err;
    EXPECT_TRUE(json::accept(run.out)) << run.out;
    EXPECT_EQ(run.err, "");
  }
}

TEST(Train, SwitchesStrategiesBetweenStepsWithoutTouchingBits) {
  Toy toy;
  const Folder folder;
  const std::string switches =
      "[[strategy.switch]]\nat_step = 2\nplugin = \"zero2\"\n[[strategy.switch]]\nat_step = 4\nplugin = "
      "\"replicate\"\n";
  const std::string with = folder.write("with.toml", job_text(switches)),
                    without = folder.write("without.toml", job_text());
  const std::vector<std::string> more{"--set", "train.microbatches=1", "--json"};
  const auto run = [&](const std::string& job, const std::string& file) {
    std::vector<std::string> arguments{"train", job};
    arguments.insert(arguments.end(), more.begin(), more.end());
    arguments.push_back(file);
    const AppRun done = run_app(toy, arguments);
    EXPECT_EQ(done.code, 0) << done.err;
    return done;
  };
  const AppRun switched = run(with, folder.file("with.json"));
  run(without, folder.file("without.json"));
  const json out = json_of(folder.file("with.json"));
  EXPECT_EQ(hex_losses(out), hex_losses(json_of(folder.file("without.json"))));
  ASSERT_EQ(out.at("switches").size(), 2U);
  EXPECT_FALSE(out["switches"][0].at("relaid"));
  EXPECT_EQ(out["switches"][0].at("where"), with + ":3:1");
  EXPECT_TRUE(out["switches"][1].at("relaid"));
  EXPECT_GT(out["switches"][1].at("bytes_relaid").get<int64_t>(), 0);
  EXPECT_EQ(out.at("traffic").at("relay").at("bytes"), out["switches"][1].at("bytes_relaid"));
  ASSERT_EQ(out.at("memory").at("phases").size(), 3U);
  for (const json& phase : out["memory"]["phases"]) {
    EXPECT_EQ(phase.at("steps"), 2);
    EXPECT_EQ(phase.at("predicted").at("total"), phase.at("measured").at("total")) << phase;
  }
  EXPECT_NE(switched.out.find("\n  after 2 steps: zero2 (nothing moved), "), std::string::npos) << switched.out;
  EXPECT_NE(switched.out.find("\n  after 4 steps: replicate (re-laid, "), std::string::npos) << switched.out;
}

TEST(Train, ARunThatFailsWritesWhatIsKnown) {
  const Folder folder;
  const std::string job = folder.write("job.toml", job_text());
  struct Case {
    const char* failure;
    int code;
    const char* err;
    std::size_t steps;
  };
  for (const Case& one : {Case{"throw", 1, "toy: rank 1 failed: the toy broke\n", 2},
                          Case{"error", 2, "toy: toy.bin: the toy has no data left (give it more)\n", 2},
                          Case{"unknown", 1, "toy: rank 1 failed: an exception of an unknown type\n", 2},
                          Case{"validation", 1,
                               "toy: the validation loss is nan after 3 steps (lower [optimizer] lr, set clip_norm, or "
                               "look at the validation data)\n",
                               3}}) {
    Toy toy;
    toy.failure = one.failure;
    const std::string file = folder.file(std::string(one.failure) + ".json");
    const AppRun run = run_app(toy, {"train", job, "--json", file});
    expect_failure(run, one.code, one.err);
    EXPECT_NE(run.out.find(std::to_string(one.steps) + " steps in "), std::string::npos) << run.out;
    EXPECT_NE(run.out.find("\npeak of the fullest rank"), std::string::npos) << run.out;
    const json out = json_of(file);
    EXPECT_EQ(out.at("steps").size(), one.steps) << one.failure;
    EXPECT_FALSE(out.at("error").at("what").get<std::string>().empty());
    EXPECT_TRUE(out.contains("plan") && out.contains("job") && out.contains("traffic") && out.contains("memory"));
  }
}

TEST(Train, AFillThatFailsHasTakenNoTime) {
  Toy toy;
  toy.failure = "fill";
  const Folder folder;
  expect_failure(run_app(toy, {"train", folder.write("job.toml", job_text()), "--json", folder.file("run.json")}), 1,
                 "toy: the toy cannot be filled\n");
  const json out = json_of(folder.file("run.json"));
  EXPECT_EQ(out.at("time").at("seconds"), 0.0);
  EXPECT_EQ(out.at("error").at("what"), "the toy cannot be filled");
}

TEST(Train, AFileThatCannotBeWrittenLeavesTheRunItsOwnError) {
  Toy toy;
  const Folder folder;
  const std::string job = folder.write("job.toml", job_text());
  const std::string full = "/dev/full: cannot write the JSON: No space left on device\n";
  expect_failure(run_app(toy, {"train", job, "--json", "/dev/full"}), 1, "toy: " + full);
  toy.failure = "error";
  const AppRun run = run_app(toy, {"train", job, "--json", "/dev/full"});
  expect_failure(run, 2, "toy: toy.bin: the toy has no data left (give it more)\n");
  EXPECT_TRUE(run.out.ends_with("\n" + full)) << run.out;
}

// All ranks end the sample at once, though the signal comes when they please, and show what there is of it.
TEST(Train, ASignalEndsTheSample) {
  Toy toy;
  toy.failure = "sample";
  const Folder folder;
  const AppRun run = run_app(toy, {"train", folder.write("job.toml", job_text()), "--ranks", "4", "--json",
                                   folder.file("run.json"), "--set", "train.microbatches=1"});
  EXPECT_EQ(run.code, 130) << run.err;
  EXPECT_EQ(run.err, "");
  for (const char* part :
       {"\nstopped by SIGTERM after 6 steps\n", "\npeak of the fullest rank", "\nsample\n  a toy's word\n  ooooooo"})
    EXPECT_NE(run.out.find(part), std::string::npos) << part << " in\n" << run.out;
  const json out = json_of(folder.file("run.json"));
  EXPECT_TRUE(out.at("interrupted"));
  EXPECT_EQ(out.at("steps").size(), 6U);
  EXPECT_TRUE(out.at("sample").get<std::string>().starts_with("a toy's word\nooooooo"));
}

TEST(Train, NoStepsIsARunToo) {
  Toy toy;
  const Folder folder;
  const std::string job = folder.write("job.toml", job_text()), file = folder.file("run.json");
  const AppRun run = run_app(toy, {"train", job, "--set", "train.steps=0", "--json", file});
  EXPECT_EQ(run.code, 0) << run.err;
  for (const char* part :
       {"\nno step was finished\n", "\ntraffic, first rank", "\npeak of the fullest rank", "\nsample\n"})
    EXPECT_NE(run.out.find(part), std::string::npos) << part << " in\n" << run.out;
  const json out = json_of(file);
  EXPECT_EQ(out.at("steps"), json::array());
  EXPECT_EQ(out.at("validation"), json::array());
  EXPECT_EQ(out.at("time").at("samples_per_second"), 0.0);
  EXPECT_EQ(out.at("report").at("steps"), 0);
  const AppRun both = run_app(toy, {"compare", file, file, "--json", folder.file("both.json")});
  EXPECT_EQ(both.code, 0) << both.err;
  EXPECT_NE(both.out.find("\nlast loss                 -         -               -\n"), std::string::npos) << both.out;
  EXPECT_TRUE(json_of(folder.file("both.json")).at("runs").at(0).at("last_loss").is_null());
}

TEST(Train, NoNumberIsAnErrorAtItsStep) {
  Toy toy;
  const Folder folder;
  const AppRun run = run_app(toy, {"train", folder.write("job.toml", job_text()), "--set", "optimizer.lr=1e300",
                                   "--json", folder.file("nan.json")});
  EXPECT_EQ(run.code, 1);
  EXPECT_EQ(lines(run.err).size(), 1U) << run.err;
  EXPECT_TRUE(run.err.starts_with("toy: the loss is ")) << run.err;
  EXPECT_NE(run.err.find(" at step 1 (lower [optimizer] lr, set clip_norm, or look at the data of that step)\n"),
            std::string::npos)
      << run.err;
  EXPECT_EQ(json_of(folder.file("nan.json")).at("error").at("code"), "numeric");
}

TEST(PrintJob, ReadsBackToItself) {
  Toy toy;
  const Folder folder;
  const std::string job = folder.write("job.toml", job_text("[[strategy.unit]]\nmatch = \"b\"\nreduce = \"last\"\n"));
  for (const char* command : {"train", "explain", "compare"}) {
    const AppRun first =
        run_app(toy, {command, job, "--print-job", "--no-reshard-after-forward", "--set", "memory.budget=1 MiB"});
    EXPECT_EQ(first.code, 0) << first.err;
    EXPECT_NE(first.out.find("\n[model]\ndepth = 2  # 2\n"), std::string::npos) << first.out;
    const AppRun again = run_app(toy, {command, folder.write("again.toml", first.out), "--print-job"});
    EXPECT_EQ(again.out, first.out);
  }
}

TEST(PrintJob, JsonHoldsTheJobToo) {
  Toy toy;
  const Folder folder;
  const std::string job = folder.write("job.toml", job_text());
  const AppRun run = run_app(toy, {"train", job, "--print-job", "--steps", "9", "--json", folder.file("job.json")});
  EXPECT_EQ(run.code, 0) << run.err;
  const json out = json_of(folder.file("job.json"));
  EXPECT_EQ(out.at("job").at("train").at("steps"), 9);
  EXPECT_EQ(out["job"].at("toml"), run.out);
  const AppRun alone = run_app(toy, {"train", job, "--print-job", "--steps", "9", "--json", "-"});
  EXPECT_EQ(json::parse(alone.out), out);
}

// tests/package builds what it makes.
TEST(App, BeginsAStrategyUnderAFreeNameInAFreeFolder) {
  Toy toy;
  const Folder folder;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.file(""));
  const AppRun made = run_app(toy, {"plugins", "new", "acme_mine", "--lang", "c"});
  const AppRun again = run_app(toy, {"plugins", "new", "acme_mine"}),
               shipped = run_app(toy, {"plugins", "new", "zero3"});
  const AppRun bad = run_app(toy, {"plugins", "new", "../acme"});
  std::filesystem::current_path(before);
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_NE(text_of(folder.file("acme_mine/acme_mine.c")).find("RESHARD_NOTE(\"acme_mine\", \"0.1.0\", 0)"),
            std::string::npos);
  expect_failure(
      again, 2,
      "toy: toy plugins new: acme_mine is here already, and is no empty folder (choose another name, or another "
      "working directory)\n");
  expect_failure(
      shipped, 2,
      "toy: toy plugins new: \"zero3\" is the name of an installed strategy (begin it with who makes it, as in "
      "acme_zero3)\n");
  expect_failure(
      bad, 2,
      "toy: toy plugins new: \"../acme\" is no name for a strategy (names match [a-z][a-z0-9_]*, have at most "
      "63 characters, and begin with who makes them, as acme_mine does)\n");
}

// The plugins of a job stand in the folders that it names; nothing else of the job need be this program's.
TEST(Plugins, ListSearchesTheFoldersOfAJob) {
  Toy toy;
  const Folder folder;
  const std::string mine = RESHARD_BINARY_DIR "/tests/cli/plugins";
  const std::string job =
      folder.write("job.toml", "[plugins]\npath = [\"" + mine + "\"]\n[model]\nof = \"another program\"\n");
  const auto names = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--json", "-"});
    const AppRun run = run_app(toy, arguments);
    EXPECT_EQ(run.code, 0) << run.err;
    std::vector<std::string> out;
    const json listed = json::parse(run.out);
    for (const json& one : listed.at("strategies")) out.push_back(one.at("name"));
    return out;
  };
  const std::vector<std::string> without = names({"plugins", "list"}), with = names({"plugins", "list", job});
  EXPECT_EQ(std::find(without.begin(), without.end(), "moody"), without.end());
  ASSERT_FALSE(with.empty());
  EXPECT_EQ(with.front(), "moody");  // the job's folders come first
  EXPECT_EQ(with.size(), without.size() + 1);
  expect_failure(run_app(toy, {"plugins", "list", folder.file("none.toml")}), 2,
                 "toy: " + folder.file("none.toml") + ": there is no such job file (check the path)\n");
  expect_failure(
      run_app(toy, {"plugins", "list", folder.write("bad.toml", "[plugins]\npaths = []\n")}), 2,
      "toy: " + folder.file("bad.toml") + ":2:1: unknown key \"paths\" in [plugins] (did you mean \"path\"?)\n");
}

TEST(Plugins, AreNotReadForACommandThatShowsNone) {
  int asked = 0;
  Face face;
  face.name = "toy";
  face.installed = [&asked] { return ++asked, std::vector<std::string>(); };
  const auto run = [&](std::vector<std::string> arguments) {
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    testing::internal::CaptureStdout();
    EXPECT_EQ(run_command(static_cast<int>(argv.size()), argv.data(), face, nullptr), 0);
    testing::internal::GetCapturedStdout();
  };
  run({"toy", "--version"});
  run({"toy", "plugins", "describe", "zero3"});
  EXPECT_EQ(asked, 0);
  run({"toy", "--help"});
  EXPECT_EQ(asked, 1);
}

TEST(BadInput, IsOneLineAndAnExitCode) {
  Toy toy;
  const Folder folder;
  const std::string job = folder.write("job.toml", job_text());
  expect_failure(run_app(toy, {"train"}), 2,
                 "toy: command line: no job file is given (name one, as in bin/toy train job.toml)\n");
  expect_failure(run_app(toy, {"train", "/none.toml"}), 2,
                 "toy: /none.toml: there is no such job file (check the path)\n");
  expect_failure(
      run_app(toy, {"train", folder.write("bad.toml", "[train]\nstepz = 3\n")}), 2,
      "toy: " + folder.file("bad.toml") + ":2:1: unknown key \"stepz\" in [train] (did you mean \"steps\"?)\n");
  expect_failure(run_app(toy, {"train", job, "--set", "model.depth=3"}), 2,
                 "toy: --set model.depth: model.depth must be between 2 and 2, not 3\n");
  expect_failure(
      run_app(toy, {"train", job, "--ranks", "3"}), 2,
      "toy: " + job +
          ":8:1: train.global_batch = 8 does not divide among 3 ranks × 2 micro-batches = 6 (use a multiple of 6, or "
          "ranks × micro-batches that make one of 1, 2, 4 and 8)\n");
  expect_failure(run_app(toy, {"train", job, "--set", "optimizer.name=program"}), 2,
                 "toy: --set optimizer.name: toy brings no optimizer of its own (use \"adamw\" or \"sgd\")\n");
  expect_failure(run_app(toy, {"explain", job, "--reshard-after-forward", "--no-reshard-after-forward"}), 2,
                 "toy: command line: --reshard-after-forward and --no-reshard-after-forward contradict each other "
                 "(give one of them)\n");
  expect_failure(
      run_app(toy, {"train", job, "--json", "/none/run.json"}), 2,
      "toy: /none/run.json: cannot write the JSON: No such file or directory (check the folder of --json)\n");
  expect_failure(run_app(toy, {"compare", job}), 2,
                 "toy: command line: no strategies are given to compare (as in: bin/toy compare " + job +
                     " --strategies zero3,zero2,zero1 --steps 15)\n");
  expect_failure(run_app(toy, {"compare", job, "--strategies", "zero3,zero3"}), 2,
                 "toy: --strategies: zero3 is named twice (name each arm once)\n");
  expect_failure(run_app(toy, {"compare", job, "--strategies", "zero3,zero2", "--steps", "9"}), 2,
                 "toy: command line: --steps = 9 is less than one round: 2 strategies × 5 steps = 10 (give more steps, "
                 "or a smaller --block-steps)\n");
  expect_failure(run_app(toy, {"compare", job, "--strategies", "zero3,zero2", "--steps", "20", "--blocks", "2"}), 2,
                 "toy: command line: --steps and --blocks both say how long the run is (give one of them)\n");
  for (const char* command : {"compare", "explain"})
    expect_failure(run_app(toy, {command, job, "--strategies", "zero3,zero2", "--set", "strategy.plugin=zero1"}), 2,
                   std::string("toy: command line: --set strategy.plugin and --strategies both say what to ") +
                       command + " (give one of them)\n");
  const AppRun missing = run_app(toy, {"train", job, "--strategy", "zero9"});
  EXPECT_EQ(missing.code, 2);
  EXPECT_TRUE(missing.err.starts_with("toy: --strategy: there is no strategy \"zero9\"; tried ")) << missing.err;
  EXPECT_EQ(missing.out, "");
}

}  // namespace
}  // namespace reshard::cli
