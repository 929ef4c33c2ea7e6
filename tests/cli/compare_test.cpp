// Comparing strategies: the bits that are promised are there, also in the library call; and two finished runs.

#include <sys/stat.h>

#include <atomic>
#include <iterator>
#include <string>

#include <gtest/gtest.h>

#include "reshard/compare.h"
#include "tests/cli/run_app.h"
#include "tests/shipped.h"

namespace reshard::cli {
namespace {

using nlohmann::json;

json compare_toy(const std::vector<std::string>& more, std::string* out = nullptr) {
  Toy toy;
  const Folder folder;
  std::vector<std::string> arguments{"compare", folder.write("job.toml", job_text()), "--json",
                                     folder.file("out.json")};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const AppRun run = run_app(toy, arguments);
  EXPECT_EQ(run.code, 0) << run.err;
  if (out != nullptr) *out = run.out;
  return json_of(folder.file("out.json"));
}

TEST(Compare, EveryPromiseIsKept) {
  std::string strategies = "zero3";
  for (const std::string name : tests::kShipped)
    if (name != "zero3") strategies += "," + name;
  for (const char* ranks : {"1", "2", "4"})
    for (const char* microbatches : {"1", "2"}) {
      const json out =
          compare_toy({"--strategies", strategies, "--ranks", ranks, "--blocks", "2", "--block-steps", "2", "--set",
                       std::string("train.microbatches=") + microbatches, "--set", "memory.budget=1 GiB", "--set",
                       std::string("mesh.ranks_per_node=") + (*ranks == '4' ? "2" : "1")});
      ASSERT_EQ(out.at("arms").size(), std::size(tests::kShipped));
      bool all = true;
      for (const json& arm : out["arms"]) {
        const json& bits = arm.at("bits");
        EXPECT_TRUE(bits.at("identical").get<bool>() || !bits.at("promised").get<bool>()) << arm;
        EXPECT_GE(bits.at("steps_compared").get<int>(), 2);
        EXPECT_EQ(arm.at("seconds").size(), 2U);
        EXPECT_EQ(arm.at("memory").at("predicted").at("total"), arm["memory"].at("measured").at("total")) << arm;
        all = all && bits["promised"].get<bool>();
      }
      const bool one = std::string(ranks) == "1" || std::string(microbatches) == "1";
      EXPECT_EQ(all, one) << ranks << " ranks, " << microbatches << " micro-batches";
      EXPECT_EQ(out.at("parameters").at("promised"), all);
      EXPECT_TRUE(out["parameters"].at("identical").get<bool>() || !all);
    }
}

TEST(Compare, TablesAndTheNextThingToTry) {
  std::string text;
  const json out = compare_toy({"--strategies", "zero3,zero1", "--steps", "13", "--block-steps", "3"}, &text);
  EXPECT_EQ(out.at("blocks"), 2);  // 13 / (2 strategies × 3 steps)
  EXPECT_EQ(out.at("steps"), 12);
  EXPECT_EQ(out["arms"][0].at("traffic_per_step").at("reduce").at("count"), 6);
  EXPECT_EQ(out["arms"][1].at("traffic_per_step").at("reduce").at("count"), 3);
  for (const char* part :
       {"zero3 and zero1 in turns on one training state\n", "\nper step  ",
        "\nmeasured peak of the fullest rank     zero3     zero1\n",
        "\nzero3       identical losses in the 3 steps before zero1's first turn\n",
        "; not promised: one reduces all in each micro-batch, one in the last, which adds in another order\n",
        "\nnext: bin/toy explain "})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
}

// An arm runs with its own options and no other arm's: traffic and peaks tell, and a run of its own has the same plan.
TEST(Compare, VariantsOfOneStrategyKeepTheirOptionsApart) {
  Toy toy;
  const Folder folder;
  const std::string job = folder.write(
      "job.toml",
      job_text("[[strategy.variant]]\nname = \"deep\"\nplugin = \"zero3\"\noptions = { prefetch_forward = 2, "
               "prefetch_backward = 2 }\n[[strategy.variant]]\nname = \"lean\"\nplugin = \"zero3\"\noptions = { "
               "prefetch_forward = 0 }\n"));
  ASSERT_EQ(run_app(toy, {"train", job, "--json", folder.file("alone.json")}).code, 0);
  const json alone = json_of(folder.file("alone.json"));
  for (const char* order : {"deep,zero3,lean", "zero3,deep,lean", "lean,deep,zero3"}) {
    const AppRun run = run_app(toy, {"compare", job, "--strategies", order, "--blocks", "2", "--block-steps", "2",
                                     "--json", folder.file("out.json")});
    ASSERT_EQ(run.code, 0) << run.err;
    std::vector<std::string> hashes;
    const json out = json_of(folder.file("out.json"));
    for (const json& arm : out.at("arms")) {
      hashes.push_back(arm.at("plan_hash"));
      EXPECT_EQ(arm.at("memory").at("predicted").at("total"), arm["memory"].at("measured").at("total")) << arm;
      if (arm.at("name") == "zero3") {
        EXPECT_EQ(arm["plan_hash"], alone.at("plan").at("hash"));
        EXPECT_EQ(arm["memory"]["measured"]["total"], alone.at("memory").at("measured").at("total"));
      }
    }
    std::sort(hashes.begin(), hashes.end());
    EXPECT_EQ(std::unique(hashes.begin(), hashes.end()), hashes.end()) << order;
  }
}

TEST(Compare, TwoFinishedRunsAreUnpaired) {
  Toy toy;
  const Folder folder;
  const std::string job = folder.write("job.toml", job_text()), a = folder.file("a.json"), b = folder.file("b.json"),
                    c = folder.file("c.json");
  ASSERT_EQ(run_app(toy, {"train", job, "--json", a}).code, 0);
  ASSERT_EQ(run_app(toy, {"train", job, "--json", b, "--strategy", "zero2"}).code, 0);
  ASSERT_EQ(run_app(toy, {"train", job, "--json", c, "--set", "optimizer.lr=0.5"}).code, 0);
  const AppRun same = run_app(toy, {"compare", a, b});
  EXPECT_EQ(same.code, 0) << same.err;
  EXPECT_NE(same.out.find("\nlosses: identical in all 6 common steps\n"), std::string::npos) << same.out;
  EXPECT_NE(same.out.find("\nsettings that differ  first    second\nstrategy.plugin       \"zero3\"  \"zero2\"\n"),
            std::string::npos)
      << same.out;
  EXPECT_NE(same.out.find("These runs are unpaired: "), std::string::npos);
  const AppRun other = run_app(toy, {"compare", a, c, "--json", "-"});
  const json out = json::parse(other.out);
  EXPECT_FALSE(out.at("paired"));
  EXPECT_EQ(out.at("runs").size(), 2U);
  EXPECT_NE(out.at("losses").get<std::string>().find("first at step 1"), std::string::npos) << out;
  EXPECT_EQ(out.at("settings_that_differ"), (json{{"optimizer.lr", {{"first", 0.01}, {"second", 0.5}}}}));
  EXPECT_EQ(
      out.at("learning_rates"),
      "learning rates: differ first at step 0 (1.000e-02, 5.000e-01), so the losses after it are of two trainings");
  for (const json& one : out["runs"]) {
    EXPECT_EQ(one.at("reduces"), 36);  // 3 units × 2 micro-batches × 6 steps
    EXPECT_EQ(one.at("all_reduces"), 0);
  }

  // A schedule ends with its run; options and units are settings, too.
  const std::vector<std::string> cosine{"train", job, "--set", "optimizer.schedule.name=cosine", "--json"};
  const auto trained = [&](const std::string& file, const std::vector<std::string>& more) {
    std::vector<std::string> arguments = cosine;
    arguments.push_back(file);
    arguments.insert(arguments.end(), more.begin(), more.end());
    EXPECT_EQ(run_app(toy, arguments).code, 0);
  };
  trained(a, {});
  trained(b, {"--steps", "4", "--set", "strategy.options.zero3.prefetch_forward=2", "--unit", "b:reduce=last"});
  const AppRun shorter = run_app(toy, {"compare", a, b, "--json", "-"});
  const json differ = json::parse(shorter.out);
  std::vector<std::string> keys;
  for (const auto& [key, values] : differ.at("settings_that_differ").items()) keys.push_back(key);
  EXPECT_EQ(keys,
            (std::vector<std::string>{"strategy.options.zero3.prefetch_forward", "strategy.unit", "train.steps"}));
  EXPECT_TRUE(differ.at("learning_rates").get<std::string>().starts_with("learning rates: differ first at step 1 ("));
  EXPECT_NE(run_app(toy, {"compare", a, b}).out.find("\ntrain.steps "), std::string::npos);

  // So are groups of parameters; their lines are none.
  const std::string group = "[[optimizer.group]]\nmatch = \"*.w\"\nlr_scale = 0.5\n";
  const auto of_groups = [&](const std::string& first, const std::string& second) {
    EXPECT_EQ(run_app(toy, {"train", folder.write("a.toml", job_text() + first), "--json", a}).code, 0);
    EXPECT_EQ(run_app(toy, {"train", folder.write("b.toml", job_text() + second), "--json", b}).code, 0);
    return json::parse(run_app(toy, {"compare", a, b, "--json", "-"}).out).at("settings_that_differ");
  };
  EXPECT_EQ(of_groups(group, "\n\n" + group), json::object());
  EXPECT_EQ(json_of(b).at("job").at("where").at("optimizer.group.0"), folder.file("b.toml") + ":15:1");
  json expected{{"match", "*.w"}, {"lr_scale", 0.5}, {"weight_decay", nullptr}};
  EXPECT_EQ(of_groups(group, ""),
            (json{{"optimizer.group", {{"first", json::array({expected})}, {"second", json::array()}}}}));

  const AppRun none = run_app(toy, {"compare", a, job});
  EXPECT_EQ(none.code, 2);
  EXPECT_EQ(none.err, "toy: " + job + ": this is no finished run (give two files that train --json wrote)\n");
  expect_failure(
      run_app(toy, {"compare", folder.file("no.json"), a}), 2,
      "toy: " + folder.file("no.json") + ": there is no such run (check the path; train --json FILE writes one)\n");
  expect_failure(run_app(toy, {"compare", a, folder.file("")}), 2,
                 "toy: " + folder.file("") + ": the run is a folder (give the path of a file of train --json in it)\n");
}

// Opened as a file is, a FIFO would be waited for, and a device read for ever.
TEST(Compare, WaitsForNoFileThatIsNone) {
  Toy toy;
  const Folder folder;
  const std::string fifo = folder.file("fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  for (const std::string& file : {fifo, std::string("/dev/zero")}) {
    expect_failure(run_app(toy, {"compare", file, file}), 2,
                   "toy: " + file + ": the run is not a regular file (give the path of a file of train --json)\n");
    for (const std::vector<std::string>& command :
         {std::vector<std::string>{"plugins", "list", file}, {"plugins", "why", "zero3", file}, {"explain", file}})
      expect_failure(run_app(toy, command), 2,
                     "toy: " + file + ": the job file is not a regular file (give the path of a TOML file)\n");
  }
}

TEST(Compare, IsALibraryCallToo) {
  Job job;
  job.mesh.ranks = 2;
  job.train.global_batch = 8;
  job.train.microbatches = 2;
  Toy toy;
  const Model model = toy.model(job, {});
  const std::string no_failure;
  CompareOptions options;
  options.arms = {{"first", {"zero3", {}, "test"}}, {"second", {"zero2", {}, "test"}}};
  options.blocks = 2;
  options.block_steps = 2;
  std::atomic<int64_t> told = 0;
  options.progress = [&](int64_t done, int64_t total) {
    EXPECT_EQ(done, ++told);
    EXPECT_EQ(total, 16);
  };
  const Training training = [&](Runtime& runtime) {
    auto trainer = std::make_shared<ToyTrainer>(no_failure);
    trainer->fill(runtime);
    return [trainer, &runtime](MicroBatch at) { return trainer->micro_batch(runtime, at); };
  };
  const Comparison comparison = compare(job, model, options, training);
  EXPECT_EQ(told, 16);
  EXPECT_EQ(comparison.arms.at(1).name, "second");
  EXPECT_TRUE(comparison.arms[1].identical);
  EXPECT_TRUE(comparison.parameters_identical);

  options.stop = [] { return true; };
  try {
    told = 0;
    compare(job, model, options, training);
    FAIL() << "nothing stopped it";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::interrupted);
    EXPECT_STREQ(error.what(), "stopped after 1 of 16 steps (nothing is compared yet)");
  }
  // Stopped in the second turn: the first one is told, and no parameters are compared.
  told = 0;
  options.stop = [&] { return told >= 10; };
  const Comparison part = compare(job, model, options, training);
  EXPECT_TRUE(part.stopped());
  EXPECT_EQ(part.steps_done, 2);
  EXPECT_EQ(part.arms[0].blocks, 1);
  EXPECT_EQ(part.arms[0].seconds.size(), 1U);
  EXPECT_TRUE(part.arms[0].identical);
  EXPECT_EQ(part.arms[1].blocks, 0);
  EXPECT_FALSE(part.parameters_identical);
  // In its last step: nothing is missing.
  told = 0;
  options.stop = [&] { return told >= 15; };
  EXPECT_FALSE(compare(job, model, options, training).stopped());
  options.arms.pop_back();
  EXPECT_THROW(compare(job, model, options, training), Error);
}

// A training that is not the same twice shows: the promise is checked against a run, not assumed.
TEST(Compare, ABrokenPromiseIsSeen) {
  Job job;
  job.mesh.ranks = 2;
  job.train.global_batch = 8;
  Toy toy;
  const Model model = toy.model(job, {});
  const std::string no_failure;
  CompareOptions options;
  options.arms = {{"first", {"zero3", {}, "test"}}, {"second", {"zero2", {}, "test"}}};
  options.blocks = 1;
  options.block_steps = 2;
  std::atomic<int> runs = 0;
  const Comparison comparison = compare(job, model, options, [&](Runtime& runtime) {
    auto trainer = std::make_shared<ToyTrainer>(no_failure);
    trainer->fill(runtime);
    const bool second_run = runs.fetch_add(1) >= 2;
    return [trainer, &runtime, second_run](MicroBatch at) {
      return trainer->micro_batch(runtime, at) + (second_run && at.step == 3 ? 1e-9 : 0.0);
    };
  });
  EXPECT_TRUE(comparison.arms[0].identical);
  EXPECT_TRUE(comparison.arms[1].promised);
  EXPECT_FALSE(comparison.arms[1].identical);
  EXPECT_GT(comparison.arms[1].largest_difference, 0.0);
}

}  // namespace
}  // namespace reshard::cli
