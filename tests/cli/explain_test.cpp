// `explain` on a toy: what it shows, what it refuses as train does, and the names that a job may use.

#include <gtest/gtest.h>

#include "tests/cli/run_app.h"

namespace reshard::cli {
namespace {

using nlohmann::json;

TEST(Explain, ShowsEverythingAndThenTheBudgetsVerdict) {
  Toy toy;
  const Folder folder;
  const std::string job =
      folder.write("job.toml", job_text("[[strategy.unit]]\nmatch = \"root\"\nafter_forward = \"keep\"\n"));
  const AppRun fits = run_app(toy, {"explain", job, "--unit", "b:reduce=last"});
  EXPECT_EQ(fits.code, 0) << fits.err;
  for (const std::string& part :
       {std::string("\n  unit  "), std::string("\nwho decided\n"),
        std::string("\n  --unit b:reduce\n    b: reduce = last instead of \"each\" (plugin zero3)\n"),
        "\n  " + job + ":5:1\n    all: after_forward = keep instead of \"free\" (plugin zero3)\n",
        std::string("\n  per rank and step  count"), std::string("\n  predicted peak per rank  "),
        std::string("\n  kept unit  costs at the peak\n  all        ")})
    EXPECT_NE(fits.out.find(part), std::string::npos) << part << " in\n" << fits.out;
  EXPECT_EQ(lines(fits.out).back(), "next: bin/toy train " + job + " --unit b:reduce=last");

  const AppRun over =
      run_app(toy, {"explain", job, "--set", "memory.budget=1 KiB", "--json", folder.file("plan.json")});
  EXPECT_EQ(over.code, 2);
  EXPECT_NE(over.out.find(" too little\n"), std::string::npos) << over.out;
  EXPECT_TRUE(over.err.starts_with("toy: --set memory.budget: strategy zero3 needs ")) << over.err;
  EXPECT_FALSE(json_of(folder.file("plan.json")).at("budget").at("fits"));
}

TEST(Explain, ShowsBothValuesWhereTheCommandLineReplacedOne) {
  Toy toy;
  const Folder folder;
  const std::string job = folder.write(
      "job.toml", job_text("[strategy.options.zero3]\nprefetch_forward = 2\n[[strategy.unit]]\nmatch = \"b\"\nreduce = "
                           "\"each\"\n"));
  const AppRun run = run_app(toy, {"explain", job, "--ranks", "4", "--strategy", "zero2", "--steps", "9", "--set",
                                   "strategy.options.zero3.prefetch_forward=0", "--set", "optimizer.eps=1e-6", "--unit",
                                   "b:reduce=last", "--json", folder.file("plan.json")});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_NE(
      run.out.find("\nreplaced on the command line\n"
                   "  mesh.ranks = 4 (--ranks); " +
                   job +
                   ":10:1 said 2\n"
                   "  strategy.options.zero3.prefetch_forward = 0 (--set strategy.options.zero3.prefetch_forward); " +
                   job + ":4:1 said 2\n  strategy.plugin = \"zero2\" (--strategy); " + job +
                   ":2:1 said \"zero3\"\n  train.steps = 9 (--steps); " + job + ":12:1 said 6\n\n"),
      std::string::npos)
      << run.out;  // not optimizer.eps: the file does not say it
  EXPECT_NE(run.out.find("    b: reduce = last instead of \"each\" (" + job + ":7:1)\n"), std::string::npos) << run.out;
  const json out = json_of(folder.file("plan.json"));
  EXPECT_EQ(out.at("replaced").size(), 4U);
  EXPECT_EQ(out["replaced"].at("mesh.ranks"),
            (json{{"value", 4}, {"by", "--ranks"}, {"was", 2}, {"where", job + ":10:1"}}));
  const json& reduce = out.at("plan").at("units").at(1).at("reduce");
  EXPECT_EQ(reduce.at("by"), "--unit b:reduce");
  EXPECT_EQ(reduce.at("replaced"), "\"each\" (" + job + ":7:1)");
  const AppRun arms = run_app(toy, {"explain", job, "--strategies", "zero3,zero2", "--ranks", "4"});
  EXPECT_NE(arms.out.find("\n  mesh.ranks = 4 (--ranks); " + job + ":10:1 said 2\n"), std::string::npos) << arms.out;
}

// The strongest voice comes first, of the whole plan's values as of a unit's.
TEST(Explain, TheCommandLineSpeaksBeforeTheJob) {
  Toy toy;
  const Folder folder;
  const std::string job = folder.write(
      "job.toml", job_text("all_reduce = \"each\"\n[[strategy.unit]]\nmatch = \"b\"\nreduce = \"last\"\n"));
  const AppRun run = run_app(toy, {"explain", job, "--set", "strategy.all_reduce=last"});
  EXPECT_NE(
      run.out.find("who decided\n  --set strategy.all_reduce\n    the plan: all_reduce = last instead of \"each\" (" +
                   job + ":3:1)\n  " + job + ":6:1\n    b: reduce = last"),
      std::string::npos)
      << run.out;
}

// Only where somebody chose another than the core's: who did, and what it costs.
TEST(Explain, SaysWhatAnotherOrderOfPrefetchingGathers) {
  Toy toy;
  const Folder folder;
  const std::string job = folder.write("job.toml", job_text("backward_order = \"since_backward\"\n"));
  const AppRun run = run_app(toy, {"explain", job});
  EXPECT_NE(run.out.find("who decided\n  " + job + ":3:1\n    the plan: backward_order = since_backward\n"),
            std::string::npos)
      << run.out;
  EXPECT_NE(run.out.find(job + ":3:1: backward_order = since_backward gathers what FSDP2 does: a first unit's backward "
                               "may gather the last unit of an earlier pass, which nobody uses; the report counts "
                               "those."),
            std::string::npos)
      << run.out;
  const AppRun own = run_app(toy, {"explain", job, "--set", "strategy.backward_order=micro_batch"});
  EXPECT_EQ(own.out.find("backward_order = since_backward"), std::string::npos) << own.out;
}

// What cannot run is not explained either, in the same words; and no start table comes before them.
TEST(Explain, RefusesWhatTrainRefuses) {
  Toy toy;
  const Folder folder;
  const std::string job = folder.write("job.toml", job_text());
  struct Case {
    const char *set, *err;
  };
  for (const Case& one :
       {Case{"mesh.device=cuda", "toy: --set mesh.device: mesh.device = \"cuda\" is not in this build (use \"cpu\")\n"},
        Case{"mesh.communicator=nccl",
             "toy: --set mesh.communicator: mesh.communicator = \"nccl\" is not in this build (use \"threads\" or "
             "\"mpi\")\n"}})
    for (const std::vector<std::string>& command :
         {std::vector<std::string>{"train"}, {"explain"}, {"compare", "--strategies", "zero3,zero2"}}) {
      std::vector<std::string> arguments{command.front(), job, "--set", one.set};
      arguments.insert(arguments.end(), command.begin() + 1, command.end());
      const AppRun run = run_app(toy, arguments);
      expect_failure(run, 2, one.err);
      EXPECT_EQ(run.out, "");
    }
}

TEST(Explain, DoesNotOpenData) {
  Toy toy;
  toy.failure = "open";
  const Folder folder;
  const std::string job = folder.write("job.toml", job_text());
  EXPECT_EQ(run_app(toy, {"explain", job}).code, 0);
  EXPECT_EQ(run_app(toy, {"explain", job, "--strategies", "zero3,zero2"}).code, 0);
  const std::string err = "toy: the toy has no data (give it some)\n";
  const AppRun train = run_app(toy, {"train", job});
  expect_failure(train, 2, err);
  EXPECT_EQ(train.out, "");
  expect_failure(run_app(toy, {"compare", job, "--strategies", "zero3,zero2"}), 2, err);
}

TEST(Variants, AreStrategiesWithOptionsOfTheirOwn) {
  Toy toy;
  const Folder folder;
  const std::string variant =
      "[[strategy.variant]]\nname = \"deep\"\nplugin = \"zero3\"\noptions = { prefetch_forward = 3 }\n";
  const std::string job = folder.write("job.toml", job_text(variant));
  const auto plan_of = [&](const std::vector<std::string>& arguments) {
    std::vector<std::string> all = arguments;
    all.insert(all.end(), {"--json", "-"});
    const AppRun run = run_app(toy, all);
    EXPECT_EQ(run.code, 0) << run.err;
    return json::parse(run.out).at("plan");
  };
  const json wanted = plan_of({"explain", job, "--set", "strategy.options.zero3.prefetch_forward=3"});
  EXPECT_NE(wanted.at("hash"), plan_of({"explain", job}).at("hash"));
  for (const char* command : {"explain", "train"}) {
    const json plan = plan_of({command, job, "--strategy", "deep"});
    EXPECT_EQ(plan.at("hash"), wanted["hash"]);
    EXPECT_EQ(plan.at("variant"), "deep");
    EXPECT_EQ(plan.at("strategy"), "zero3");
  }
  const std::string named = folder.write("named.toml", "strategy.plugin = \"deep\"\n" + variant);
  EXPECT_EQ(plan_of({"explain", named, "--ranks", "2", "--set", "train.microbatches=2"}).at("hash"), wanted["hash"]);
  const AppRun text = run_app(toy, {"explain", job, "--strategy", "deep"});
  EXPECT_NE(text.out.find("\n  strategy  deep: zero3 "), std::string::npos) << text.out;
  EXPECT_EQ(lines(text.out).back(), "next: bin/toy train " + job + " --strategy deep");

  const std::string switched =
      folder.write("switched.toml", job_text(variant + "[[strategy.switch]]\nat_step = 2\nplugin = \"deep\"\n"));
  const AppRun run = run_app(toy, {"train", switched, "--json", folder.file("switched.json")});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(json_of(folder.file("switched.json")).at("switches").at(0).at("plan_hash"), wanted["hash"]);
}

TEST(Variants, HaveNamesOfTheirOwn) {
  Toy toy;
  const Folder folder;
  const auto variant = [](const std::string& name, const std::string& plugin) {
    return "[[strategy.variant]]\nname = \"" + name + "\"\nplugin = \"" + plugin + "\"\n";
  };
  const std::string job = folder.write("job.toml", job_text(variant("zero2", "zero3")));
  for (const char* command : {"train", "explain"})
    expect_failure(run_app(toy, {command, job}), 2,
                   "toy: " + job +
                       ":3:1: the variant \"zero2\" has the name of an installed strategy (give the variant a "
                       "name of its own)\n");
  const std::string twice = folder.write("twice.toml", job_text(variant("deep", "zero3") + variant("deep", "zero2")));
  expect_failure(
      run_app(toy, {"train", twice}), 2,
      "toy: " + twice + ":6:1: two variants have the name \"deep\" (the other one is at " + twice + ":3:1)\n");
  const std::string missing = folder.write("missing.toml", job_text(variant("deep", "zero9")));
  // Whether it is used or not; what its options are worth is its plugin's to say, and none is loaded for that.
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"--strategy", "deep"}}) {
    std::vector<std::string> arguments{"train", missing};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const AppRun run = run_app(toy, arguments);
    EXPECT_EQ(run.code, 2);
    EXPECT_TRUE(run.err.starts_with("toy: " + missing + ":3:1: there is no strategy \"zero9\"; tried ")) << run.err;
  }
  const std::string nested = folder.write("nested.toml", job_text(variant("deep", "lean") + variant("lean", "deep")));
  expect_failure(run_app(toy, {"explain", nested}), 2,
                 "toy: " + nested +
                     ":3:1: the variant \"deep\" has the variant \"lean\" for its plugin (name a "
                     "strategy or the path of a .so)\n");
}

TEST(Options, OfAStrategyThatThereIsNot) {
  Toy toy;
  const Folder folder;
  const std::string job = folder.write("job.toml", job_text("[strategy.options.zeor3]\nprefetch_forward = 2\n"));
  for (const char* command : {"train", "explain"})
    expect_failure(run_app(toy, {command, job}), 2,
                   "toy: " + job +
                       ":3:19: [strategy.options.zeor3] is for a strategy that is neither installed nor named in "
                       "this job (did you mean [strategy.options.zero3]?)\n");
  const std::string good = folder.write("good.toml", job_text());
  expect_failure(
      run_app(toy, {"explain", good, "--set", "strategy.options.zeor3.x=1"}), 2,
      "toy: --set strategy.options.zeor3.x: [strategy.options.zeor3] is for a strategy that is neither installed "
      "nor named in this job (did you mean [strategy.options.zero3]?)\n");
  // Installed, but not running: unread, whatever stands there.
  const std::string other = folder.write("other.toml", job_text("[strategy.options.zero2]\nno_such_option = 2\n"));
  EXPECT_EQ(run_app(toy, {"train", other}).code, 0);
}

TEST(Explain, AnOverrideThatOneArmCannotTakeNamesTheArm) {
  Toy toy;
  const Folder folder;
  const std::string job = folder.write("job.toml", job_text());
  const std::string why =
      "replicate: after_forward = 2 of unit \"all\" does not divide its shard group of 1 rank (use \"free\" or "
      "\"keep\")\n";
  for (const char* command : {"explain", "compare"})
    expect_failure(run_app(toy, {command, job, "--strategies", "zero3,replicate", "--reshard-after-forward=2"}), 2,
                   "toy: --reshard-after-forward: " + why);
  const std::string switched =
      folder.write("switched.toml", job_text("[[strategy.switch]]\nat_step = 3\nplugin = \"replicate\"\n"));
  expect_failure(run_app(toy, {"train", switched, "--reshard-after-forward=2"}), 2,
                 "toy: --reshard-after-forward: replicate after 3 steps: " + why.substr(why.find("after_forward")));
}

TEST(Explain, ABudgetThatIsTooSmallNamesTheLargestContributors) {
  Toy toy;
  const Folder folder;
  const std::string job = folder.write("job.toml", job_text("[memory]\nbudget = \"4 KiB\"\n"));
  for (const char* command : {"train", "explain"})
    expect_failure(
        run_app(toy, {command, job}), 2,
        "toy: " + job +
            ":4:1: strategy zero3 needs 5.5 KiB per rank at its predicted peak (unit c, before backward, "
            "micro-batch 1), above the budget of 4 KiB; largest: gradients 1.75 KiB, whole parameters 1.5 KiB "
            "and optimizer state 1.5 KiB (use more ranks or smaller micro-batches, or raise the budget)\n");
}

TEST(Explain, ArmsOfTheSamePlanAreCalledThat) {
  Toy toy;
  const Folder folder;
  const std::string job = folder.write(
      "job.toml", job_text("[[strategy.unit]]\nmatch = \"*\"\nafter_forward = \"keep\"\nafter_backward = \"keep\"\n"));
  const AppRun run =
      run_app(toy, {"explain", job, "--strategies", "zero3,zero2,replicate", "--json", folder.file("arms.json")});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_NE(run.out.find("\n  zero3 and zero2 are the same plan: " + job + ":5:1 (after_forward of all, b and c) and " +
                         job + ":6:1 (after_backward of all, b and c)\n"),
            std::string::npos)
      << run.out;
  const json arms = json_of(folder.file("arms.json")).at("arms");
  EXPECT_EQ(arms.at(1).at("same_plan_as"), "zero3");
  EXPECT_FALSE(arms.at(2).contains("same_plan_as"));
}

}  // namespace
}  // namespace reshard::cli
