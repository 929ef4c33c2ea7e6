// What a job's `[[strategy.switch]]` means to explain and compare, and the warnings of plugins that are not the job's.

#include <cstdlib>

#include <gtest/gtest.h>

#include "reshard/compare.h"
#include "tests/cli/run_app.h"

namespace reshard::cli {
namespace {

using nlohmann::json;

const std::string kSwitches =
    "[[strategy.switch]]\nat_step = 2\nplugin = \"zero2\"\n[[strategy.switch]]\nat_step = 9\nplugin = \"replicate\"\n";
const std::string kMoody = RESHARD_BINARY_DIR "/tests/cli/plugins/moody.so";

TEST(Switches, ExplainPricesTheirPlans) {
  Toy toy;
  const Folder folder;
  const std::string job = folder.write("job.toml", job_text(kSwitches));
  const AppRun run = run_app(toy, {"explain", job, "--set", "memory.budget=1 MiB", "--json", folder.file("out.json")});
  ASSERT_EQ(run.code, 0) << run.err;
  ASSERT_EQ(run_app(toy, {"train", job, "--json", folder.file("run.json")}).code, 0);
  const json later = json_of(folder.file("out.json")).at("later_plans"),
             trained = json_of(folder.file("run.json")).at("later_plans");
  ASSERT_EQ(later.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(later[i].at("at_step"), i == 0 ? 2 : 9);
    EXPECT_EQ(later[i].at("where"), job + (i == 0 ? ":3:1" : ":6:1"));
    EXPECT_EQ(later[i].at("hash"), trained[i].at("hash"));
    EXPECT_EQ(later[i].at("predicted_peak"), trained[i].at("predicted_peak"));
    EXPECT_TRUE(later[i].at("budget").at("fits"));
    EXPECT_NE(run.out.find(later[i].at("hash").get<std::string>()), std::string::npos) << run.out;
  }
  for (const char* part : {"\n  switches, per rank and step  plan  ", "\n  after 2 steps: zero2  ",
                           "\n  after 9 steps: replicate; never: the run has 6 steps\n",
                           "\n  after 2 steps: zero2: budget 1 MiB per rank (--set memory.budget): "})
    EXPECT_NE(run.out.find(part), std::string::npos) << part << " in\n" << run.out;
}

// A budget that the first plan keeps and a later one does not: explain shows everything, then fails as train does.
TEST(Switches, ABudgetHoldsForEveryPlan) {
  Toy toy;
  const Folder folder;
  const std::string job = folder.write("job.toml", job_text(kSwitches));
  ASSERT_EQ(run_app(toy, {"explain", job, "--json", folder.file("out.json")}).code, 0);
  const json out = json_of(folder.file("out.json"));
  const int64_t first = out.at("plan").at("predicted_peak").at("total");
  ASSERT_GT(out.at("later_plans").at(1).at("predicted_peak").at("total"), first);
  const std::string budget = "memory.budget=" + std::to_string(first);
  const AppRun train = run_app(toy, {"train", job, "--set", budget});
  const AppRun explain = run_app(toy, {"explain", job, "--set", budget, "--json", folder.file("over.json")});
  EXPECT_EQ(explain.code, 2);
  EXPECT_EQ(explain.err, train.err);
  EXPECT_TRUE(explain.err.starts_with("toy: --set memory.budget: strategy ")) << explain.err;
  EXPECT_EQ(explain.err.find("strategy zero3 "), std::string::npos) << explain.err;
  EXPECT_NE(explain.out.find(" 0 B to spare\n"), std::string::npos) << explain.out;
  EXPECT_NE(explain.out.find(" too little\n"), std::string::npos) << explain.out;
  const json over = json_of(folder.file("over.json"));
  EXPECT_TRUE(over.at("budget").at("fits"));
  EXPECT_FALSE(over.at("later_plans").at(1).at("budget").at("fits"));
}

TEST(Switches, AStrategyThatIsNotThereFailsInExplainToo) {
  Toy toy;
  const Folder folder;
  const std::string job = folder.write("job.toml", job_text("[[strategy.switch]]\nat_step = 2\nplugin = \"zero9\"\n"));
  const AppRun explain = run_app(toy, {"explain", job});
  EXPECT_EQ(explain.code, 2);
  EXPECT_EQ(explain.err, run_app(toy, {"train", job}).err);
  EXPECT_TRUE(explain.err.starts_with("toy: " + job + ":3:1: there is no strategy \"zero9\"; tried ")) << explain.err;
}

TEST(Switches, ComparisonsSayThatTheyAreLeftOut) {
  Toy toy;
  const Folder folder;
  const std::string job = folder.write("job.toml", job_text(kSwitches));
  const std::string line = "\n  switches are left out: after 2 steps to zero2 (" + job +
                           ":3:1) and after 9 steps to replicate (" + job + ":6:1)\n";
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"explain", job}, {"compare", job, "--blocks", "1", "--block-steps", "2"}}) {
    std::vector<std::string> arguments = more;
    arguments.insert(arguments.end(), {"--strategies", "zero3,zero2", "--json", folder.file("out.json")});
    const AppRun run = run_app(toy, arguments);
    EXPECT_EQ(run.code, 0) << run.err;
    EXPECT_NE(run.out.find(line), std::string::npos) << run.out;
    const json left_out = json_of(folder.file("out.json")).at("switches_left_out");
    ASSERT_EQ(left_out.size(), 2U);
    EXPECT_EQ(left_out[1], json({{"at_step", 9}, {"strategy", "replicate"}, {"where", job + ":6:1"}}));
  }
}

TEST(Warnings, OfSwitchesAndArmsArePrinted) {
  Toy toy;
  const Folder folder;
  const std::string options = "\nplugin = \"" + kMoody + "\"\noptions = { ahead = 1 }\n";
  const std::string job = folder.write("job.toml", job_text("[[strategy.switch]]\nat_step = 2" + options +
                                                            "[[strategy.variant]]\nname = \"gloom\"" + options));
  for (const char* command : {"train", "explain"}) {
    const AppRun run = run_app(toy, {command, job});
    EXPECT_EQ(run.code, 0) << run.err;
    EXPECT_NE(run.out.find("\n  after 2 steps: moody: warning: it may rain\n"), std::string::npos) << run.out;
  }
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"explain", job}, {"compare", job, "--blocks", "1", "--block-steps", "2"}}) {
    std::vector<std::string> arguments = more;
    arguments.insert(arguments.end(), {"--strategies", "gloom,zero2", "--json", folder.file("out.json")});
    const AppRun run = run_app(toy, arguments);
    EXPECT_EQ(run.code, 0) << run.err;
    EXPECT_NE(run.out.find("\n  gloom: warning: it may rain\n"), std::string::npos) << run.out;
  }
  EXPECT_EQ(json_of(folder.file("out.json")).at("arms").at(0).at("log"), json({"warning: it may rain"}));
}

// The plan that runs is the plan whose hash was shown, or nothing runs.
TEST(Compare, AStrategyThatDecidesOtherwiseInItsTurnIsRefused) {
  Job job;
  job.mesh.ranks = 1;
  job.train.global_batch = 2;
  Toy toy;
  const Model model = toy.model(job, {});
  const std::string no_failure;
  CompareOptions options;
  options.arms = {{"zero3", {"zero3", {}, "test"}}, {"gloom", {kMoody, {{"ahead", {int64_t{1}, "test"}}}, "test"}}};
  options.blocks = 1;
  options.block_steps = 2;
  const Training training = [&](Runtime& runtime) {
    setenv("RESHARD_TEST_MOOD", "sad", 1);  // after all arms are planned; one rank, hence one thread
    auto trainer = std::make_shared<ToyTrainer>(no_failure);
    trainer->fill(runtime);
    return [trainer, &runtime](MicroBatch at) { return trainer->micro_batch(runtime, at); };
  };
  std::string what;
  try {
    compare(job, model, options, training);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::plan);
    what = error.what();
  }
  unsetenv("RESHARD_TEST_MOOD");
  EXPECT_TRUE(what.starts_with("test: gloom makes plan ")) << what;
  EXPECT_TRUE(what.ends_with(" before the run (a strategy decides by the problem and its options alone)")) << what;
}

}  // namespace
}  // namespace reshard::cli
