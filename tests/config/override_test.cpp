// The command line over the job file: what it says wins, what it replaced is remembered, and it is checked like a file.

#include <filesystem>

#include <algorithm>

#include <gtest/gtest.h>

#include "tests/config/program.h"

namespace reshard {
namespace {

using config::Overrides;
using test::error_of;
using test::Read;

Overrides set(std::vector<std::string> texts) {
  Overrides overrides;
  overrides.set = std::move(texts);
  return overrides;
}

TEST(Set, EveryKeyType) {
  Read read("");
  read.apply(set({"model.layers=7", "model.units=split", "model.tied = false", "model.rate=0.5", "model.tokens=-3",
                  "model.scales=[3, 4]", "model.names=[\"x\", 'y']", "model.range=[1,2]", "model.seed=12",
                  "data.cache=2GiB", "strategy.shard_over=4", "strategy.all_reduce=last",
                  "optimizer.schedule.name=\"cosine\"", "mesh.overlap=true"}));
  const test::Network& network = read.network;
  EXPECT_EQ(network.layers, 7);
  EXPECT_EQ(network.units, "split");
  EXPECT_FALSE(network.tied);
  EXPECT_EQ(network.rate, 0.5);
  EXPECT_EQ(network.tokens, -3);
  EXPECT_EQ(network.scales, (std::vector<double>{3, 4}));
  EXPECT_EQ(network.names, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(network.range, (std::array<double, 2>{1, 2}));
  EXPECT_EQ(network.seed, 12u);
  EXPECT_EQ(network.cache, int64_t{2} << 30);
  EXPECT_EQ(read.job.strategy.shard_over, 4);
  EXPECT_EQ(read.job.strategy.all_reduce, AllReduce::last);
  EXPECT_EQ(read.job.optimizer.schedule.name, "cosine");
  EXPECT_TRUE(read.job.mesh.overlap);
  EXPECT_EQ(read.job.where("model.layers"), "--set model.layers");
  EXPECT_EQ(read.program[0].where("layers"), "--set model.layers");
  EXPECT_TRUE(read.job.replaced.empty());
}

TEST(Set, BareTextIsAString) {
  const std::string here = std::filesystem::current_path().string();
  for (const auto& [given, held] :
       std::vector<std::pair<std::string, std::string>>{{"text dir/x", here + "/text dir/x"},
                                                        {"/a=b#c", "/a=b#c"},
                                                        {"/q\"uote", "/q\"uote"},
                                                        {"", ""},
                                                        {"/two\nlines", "/two\nlines"},
                                                        {"\"/in quotes\"", "/in quotes"}}) {
    Read read("");
    read.apply(set({"data.path=" + given}));
    EXPECT_EQ(read.network.path, held);
  }
}

TEST(Set, TablesAndOptions) {
  Read read("[strategy.options.acme]\ndepth = 1\nkeep = true\n");
  read.apply(set({"optimizer.schedule={ name = \"cosine\", warmup_steps = 3 }", "strategy.options.acme.depth=2",
                  "strategy.options.acme.limit=80GiB", "strategy.options.new.x=[1]"}));
  EXPECT_EQ(read.job.optimizer.schedule.warmup_steps, 3);
  const OptionValues& acme = read.job.strategy.options.at("acme");
  EXPECT_EQ(std::get<int64_t>(acme.at("depth").value), 2);
  EXPECT_EQ(acme.at("depth").where, "--set strategy.options.acme.depth");
  EXPECT_EQ(std::get<std::string>(acme.at("limit").value), "80GiB");
  EXPECT_TRUE(std::get<bool>(acme.at("keep").value));
  const Job::Replaced& replaced = read.job.replaced.at("strategy.options.acme.depth");
  EXPECT_EQ(replaced.text, "1");
  EXPECT_EQ(replaced.where, "job.toml:2:1");
  EXPECT_EQ(read.job.replaced.size(), 1u);
}

TEST(Set, AWholeTableReplacesTheFiles) {
  const std::string text = R"([strategy]
shard_over = 2
[strategy.options.acme]
depth = 1
keep = true
[strategy.options.other]
depth = 3
[optimizer]
lr = 0.5
[optimizer.schedule]
name = "cosine"
warmup_steps = 20
[[optimizer.group]]
match = "*"
lr_scale = 2
[model]
layers = 6
rate = 0.75
)";
  Read read(text);
  read.apply(set({"optimizer.schedule={ name = \"constant\" }", "strategy.options.acme = { depth = 2 }",
                  "model = { layers = 5 }"}));
  EXPECT_EQ(read.job.optimizer.schedule, Job::Schedule{});
  EXPECT_EQ(read.job.where("optimizer.schedule.warmup_steps"), "--set optimizer.schedule");
  EXPECT_EQ(read.job.replaced.at("optimizer.schedule.warmup_steps").text, "20");
  EXPECT_EQ(read.job.replaced.at("optimizer.schedule.name").text, "\"cosine\"");
  EXPECT_EQ(read.job.where("optimizer.schedule.final_ratio"), "default");
  EXPECT_EQ(read.job.optimizer.lr, 0.5);
  const auto& options = read.job.strategy.options;
  EXPECT_EQ(options.at("acme").size(), 1u);
  EXPECT_EQ(std::get<int64_t>(options.at("acme").at("depth").value), 2);
  EXPECT_EQ(read.job.replaced.at("strategy.options.acme.keep").text, "true");
  EXPECT_EQ(options.at("other").size(), 1u);
  EXPECT_EQ(read.network.layers, 5);
  EXPECT_EQ(read.network.rate, 0.25);
  EXPECT_EQ(read.program[0].where("rate"), "--set model");

  // Tables in the table, too, but not lists, which --set cannot give; and what is given key by key replaces no more.
  Read outer(text);
  outer.apply(
      set({"optimizer={ name = \"sgd\" }", "optimizer.schedule.warmup_steps=7", "strategy={ plugin = \"x\" }"}));
  Job::Optimizer expected;
  expected.name = "sgd";
  expected.schedule.warmup_steps = 7;
  expected.groups = read.job.optimizer.groups;
  EXPECT_EQ(expected.groups.size(), 1u);
  EXPECT_EQ(outer.job.optimizer, expected);
  EXPECT_FALSE(outer.job.strategy.shard_over);
  EXPECT_TRUE(outer.job.strategy.options.at("acme").empty());
}

TEST(Set, Errors) {
  const auto error = [](const std::string& text) { return error_of([&] { Read("").apply(set({text})); }); };
  EXPECT_EQ(error("model.layer=3"), R"(--set model.layer: unknown key "layer" in [model] (did you mean "layers"?))");
  EXPECT_EQ(error("trai.steps=3"), "--set trai.steps: unknown table [trai] (did you mean [train]?)");
  EXPECT_EQ(error("steps=3"),
            R"(--set steps: unknown key "steps" outside of any table (did you mean "steps" in [train]?))");
  EXPECT_EQ(error("train.steps=many"), R"(--set train.steps: train.steps must be an integer, not the string "many")");
  EXPECT_EQ(error("train.seed=18446744073709551615"),
            R"(--set train.seed: train.seed must be an integer, not the string "18446744073709551615" (the largest )"
            R"(integer is 9223372036854775807))");
  EXPECT_EQ(error("train.steps=-4"), "--set train.steps: train.steps must be between 0 and 1000000000, not -4");
  EXPECT_EQ(error("train=3"), "--set train: [train] must be a table, not 3");
  EXPECT_EQ(error("train.steps.x=3"), "--set train.steps.x: train.steps must be a value, not a table");
  EXPECT_EQ(error("mesh.device=gpu"),
            R"(--set mesh.device: mesh.device must be "cpu" or "cuda", not "gpu" (did you mean "cpu"?))");
  EXPECT_EQ(error("mesh.overlap=yes"),
            R"(--set mesh.overlap: mesh.overlap must be true or false, not the string "yes")");
  EXPECT_EQ(error("train.steps"), R"(command line: --set takes a.b.c=value, not "train.steps")");
  EXPECT_EQ(error("=3"), R"(command line: --set takes a.b.c=value, not "=3")");
  EXPECT_EQ(error("a..b=3"), R"(command line: --set takes a.b.c=value, not "a..b=3")");
  EXPECT_EQ(error("strategy.unit.reduce=last"),
            "--set strategy.unit.reduce: strategy.unit is a list of tables, which --set cannot reach (give --unit "
            "NAME:key=value)");
  EXPECT_EQ(error("strategy.switch=[]"),
            "--set strategy.switch: strategy.switch is a list of tables, which --set cannot reach (write "
            "[[strategy.switch]] in the job file)");
}

TEST(Options, StrategyRanksSteps) {
  Read read("[strategy]\nplugin = \"first\"\n[mesh]\nranks = 2\n");
  Overrides overrides;
  overrides.strategy = "second";
  overrides.ranks = 3;
  overrides.steps = 0;
  read.apply(overrides);
  EXPECT_EQ(read.job.strategy.plugin, "second");
  EXPECT_EQ(read.job.mesh.ranks, 3);
  EXPECT_EQ(read.job.train.steps, 0);
  EXPECT_EQ(read.job.where("strategy.plugin"), "--strategy");
  EXPECT_EQ(read.job.where("mesh.ranks"), "--ranks");
  EXPECT_EQ(read.job.replaced.at("strategy.plugin").text, "\"first\"");
  EXPECT_EQ(read.job.replaced.at("strategy.plugin").where, "job.toml:2:1");
  EXPECT_EQ(read.job.replaced.at("mesh.ranks").text, "2");
  EXPECT_FALSE(read.job.replaced.contains("train.steps")) << "a default is no value of the job file";
}

TEST(Options, StrategyPathStartsHere) {
  Read read("[strategy]\nplugin = \"first\"\n", "/jobs/job.toml");
  const std::string here = std::filesystem::current_path().string();
  for (const auto& [given, held] : std::vector<std::pair<std::string, std::string>>{
           {"./own.so", here + "/own.so"}, {"own.so", here + "/own.so"}, {"/a/own.so", "/a/own.so"}, {"own", "own"}}) {
    Overrides overrides;
    overrides.strategy = given;
    read.apply(overrides);
    EXPECT_EQ(read.job.strategy.plugin, held);
    EXPECT_EQ(config::strategy_from_command_line(given), held);
  }
}

// Of two words for one key none is dropped for the other. The same value twice, however spelled, is no contradiction.
TEST(Options, OneKeyTwice) {
  const auto error = [](auto&& fill) {
    Overrides overrides;
    fill(overrides);
    return error_of([&] { Read("[train]\nsteps = 1\n").apply(overrides); });
  };
  const auto of_set = [&](std::vector<std::string> texts) {
    return error([&](Overrides& o) { o.set = std::move(texts); });
  };
  EXPECT_EQ(of_set({"train.steps=2", "train.steps=3"}),
            "command line: train.steps is given twice: 2 (--set train.steps) and 3 (--set train.steps) (give it once)");
  EXPECT_EQ(of_set({"model.units=split", "model . units = 'root'"}),
            R"(command line: model.units is given twice: "split" (--set model.units) and "root" (--set model . units) )"
            "(give it once)");
  EXPECT_EQ(of_set({"strategy.options.acme.depth=2", "strategy.options.acme.depth=3"}),
            "command line: strategy.options.acme.depth is given twice: 2 (--set strategy.options.acme.depth) and 3 "
            "(--set strategy.options.acme.depth) (give it once)");
  EXPECT_EQ(error([](Overrides& o) { o.set = {"train.steps=2"}, o.steps = 4; }),
            "command line: train.steps is given twice: 2 (--set train.steps) and 4 (--steps) (give it once)");
  EXPECT_EQ(error([](Overrides& o) { o.set = {"mesh.ranks=2"}, o.ranks = 4; }),
            "command line: mesh.ranks is given twice: 2 (--set mesh.ranks) and 4 (--ranks) (give it once)");
  EXPECT_EQ(
      error([](Overrides& o) { o.set = {"strategy.plugin=a"}, o.strategy = "b"; }),
      R"(command line: strategy.plugin is given twice: "a" (--set strategy.plugin) and "b" (--strategy) (give it )"
      "once)");
  EXPECT_EQ(error([](Overrides& o) {
              o.set = {"data.path=/a"}, o.keys = {{"--data", "data.path", "/b"}};
            }),
            R"(command line: data.path is given twice: "/a" (--set data.path) and "/b" (--data) (give it once))");
  // A table as a whole, too: it takes back what it leaves out, and what was given before it.
  EXPECT_EQ(of_set({"optimizer.schedule.warmup_steps=3", "optimizer.schedule={ name = \"cosine\" }"}),
            "command line: optimizer.schedule.warmup_steps is given twice: 3 (--set optimizer.schedule.warmup_steps) "
            "and 0 (--set optimizer.schedule) (give it once)");
  EXPECT_EQ(of_set({"optimizer.schedule={ name = \"cosine\" }", "optimizer.schedule.name=constant"}),
            R"(command line: optimizer.schedule.name is given twice: "cosine" (--set optimizer.schedule) and )"
            R"("constant" (--set optimizer.schedule.name) (give it once))");
  EXPECT_EQ(of_set({"strategy.options.acme.depth=2", "strategy.options.acme={}"}),
            "command line: strategy.options.acme.depth is given twice: 2 (--set strategy.options.acme.depth) and "
            "nothing (--set strategy.options.acme) (give it once)");
  EXPECT_EQ(error([](Overrides& o) {
              o.set = {"train.steps=2",
                       "train.steps = 2",
                       "data.cache=2 GiB",
                       "data.cache=2147483648",
                       "optimizer.schedule={ name = \"cosine\" }",
                       "optimizer.schedule.warmup_steps=3",
                       "optimizer.lr=1",
                       "optimizer.lr=1.0"};
              o.steps = 2;
            }),
            "no error");
}

TEST(Units, OneFieldTwice) {
  const auto error = [](auto&& fill) {
    Overrides overrides;
    fill(overrides);
    return error_of([&] { Read("").apply(overrides); });
  };
  EXPECT_EQ(error([](Overrides& o) {
              o.units = {"h.3:after_forward=keep", "h.3:reshard_after_forward=2"};
            }),
            "command line: after_forward of h.3 is given twice: keep (--unit h.3:after_forward) and 2 (--unit "
            "h.3:reshard_after_forward) (give it once)");
  EXPECT_EQ(
      error([](Overrides& o) {
        o.units = {"h.3:reduce=each", "h.3:reduce=last"};
      }),
      "command line: reduce of h.3 is given twice: each (--unit h.3:reduce) and last (--unit h.3:reduce) (give it "
      "once)");
  EXPECT_EQ(error([](Overrides& o) {
              o.units = {"h.3:after_backward=free", "h.3:after_backward=keep"};
            }),
            "command line: after_backward of h.3 is given twice: free (--unit h.3:after_backward) and keep (--unit "
            "h.3:after_backward) (give it once)");
  EXPECT_EQ(error([](Overrides& o) {
              o.units = {"h.3:prefetch_forward=1", "h.3:prefetch_forward=2"};
            }),
            "command line: prefetch_forward of h.3 is given twice: 1 (--unit h.3:prefetch_forward) and 2 (--unit "
            "h.3:prefetch_forward) (give it once)");
  EXPECT_EQ(error([](Overrides& o) {
              o.units = {"h.3:prefetch_backward=1", "h.3:prefetch_backward=2"};
            }),
            "command line: prefetch_backward of h.3 is given twice: 1 (--unit h.3:prefetch_backward) and 2 (--unit "
            "h.3:prefetch_backward) (give it once)");
  EXPECT_EQ(error([](Overrides& o) {
              o.units = {"h.3:param_dtype=bf16", "h.3:param_dtype=fp32"};
            }),
            "command line: param_dtype of h.3 is given twice: bf16 (--unit h.3:param_dtype) and fp32 (--unit "
            "h.3:param_dtype) (give it once)");
  EXPECT_EQ(error([](Overrides& o) { o.units = {"*:after_forward=keep"}, o.reshard_after_forward = ""; }),
            "command line: after_forward of * is given twice: free (--reshard-after-forward) and keep (--unit "
            "*:after_forward) (give it once)");
  EXPECT_EQ(error([](Overrides& o) {
              o.units = {"h.3:reduce=last", "h.3:reduce=last", "h.*:reduce=each", "h.3:after_forward=keep"};
              o.no_reshard_after_forward = true;
            }),
            "no error");
}

TEST(Options, Errors) {
  const auto error = [](auto&& fill) {
    Overrides overrides;
    fill(overrides);
    return error_of([&] { Read("").apply(overrides); });
  };
  EXPECT_EQ(error([](Overrides& o) { o.ranks = -1; }),
            R"(command line: --ranks takes a number of ranks above 0, not "-1")");
  EXPECT_EQ(error([](Overrides& o) { o.ranks = 0; }),
            R"(command line: --ranks takes a number of ranks above 0, not "0")");
  EXPECT_EQ(error([](Overrides& o) { o.steps = -1; }), "--steps: train.steps must be between 0 and 1000000000, not -1");
  EXPECT_EQ(error([](Overrides& o) { o.strategy = ""; }), "--strategy: strategy.plugin must not be empty");
  EXPECT_EQ(error([](Overrides& o) { o.reshard_after_forward = "", o.no_reshard_after_forward = true; }),
            "command line: --reshard-after-forward and --no-reshard-after-forward contradict each other (give one of "
            "them)");
  EXPECT_EQ(
      error([](Overrides& o) { o.reshard_after_forward = "0"; }),
      R"(command line: --reshard-after-forward takes a number of ranks between 1 and 65536, not "0" (or give the )"
      R"(option without a value: free after forward))");
  EXPECT_EQ(error([](Overrides& o) { o.reshard_after_forward = "false"; }),
            R"(command line: --reshard-after-forward takes a number of ranks between 1 and 65536, not "false" (give )"
            R"(--no-reshard-after-forward: keep))");
  EXPECT_EQ(error([](Overrides& o) { o.units = {"h.3"}; }), R"(command line: --unit takes NAME:key=value, not "h.3")");
  EXPECT_EQ(error([](Overrides& o) { o.units = {"h.3=1"}; }),
            R"(command line: --unit takes NAME:key=value, not "h.3=1")");
  EXPECT_EQ(error([](Overrides& o) { o.units = {":reduce=last"}; }),
            R"(command line: --unit takes NAME:key=value, not ":reduce=last")");
  EXPECT_EQ(error([](Overrides& o) { o.units = {"h.3:reduse=last"}; }),
            R"(--unit h.3:reduse: unknown key "reduse" of a unit (did you mean "reduce"?))");
  EXPECT_EQ(error([](Overrides& o) { o.units = {"h.3:match=x"}; }),
            R"(--unit h.3:match: unknown key "match" of a unit (a unit has after_forward, reshard_after_forward, )"
            R"(after_backward, reduce, prefetch_forward, prefetch_backward, param_dtype))");
  EXPECT_EQ(error([](Overrides& o) { o.units = {"h.3:after_forward=true"}; }),
            R"(--unit h.3:after_forward: strategy.unit.after_forward must be "free", "keep" or a number of ranks, )"
            R"(not true (write reshard_after_forward = true))");
  EXPECT_EQ(error([](Overrides& o) { o.units = {"h.3:prefetch_forward=9"}; }),
            "--unit h.3:prefetch_forward: strategy.unit.prefetch_forward must be between 0 and 8, not 9");
}

// Tri-state: not given, --reshard-after-forward[=k], --no-reshard-after-forward.
TEST(Units, ReshardAfterForward) {
  for (const auto& [k, value] : std::vector<std::pair<std::string, AfterForward>>{
           {"", AfterForward::free()}, {"1", AfterForward::shrink(1)}, {"4", AfterForward::shrink(4)}}) {
    Read read("");
    Overrides overrides;
    overrides.reshard_after_forward = k;
    read.apply(overrides);
    ASSERT_EQ(read.job.strategy.units.size(), 1u);
    const UnitOverride& entry = read.job.strategy.units[0];
    EXPECT_EQ(entry.match, "*");
    EXPECT_TRUE(entry.command_line);
    EXPECT_EQ(entry.after_forward->value, value);
    EXPECT_EQ(entry.after_forward->where, "--reshard-after-forward");
  }
  Read read("");
  read.apply({});
  EXPECT_TRUE(read.job.strategy.units.empty());
  Overrides overrides;
  overrides.no_reshard_after_forward = true;
  read.apply(overrides);
  EXPECT_EQ(read.job.strategy.units.at(0).after_forward->value, AfterForward::keep());
  EXPECT_EQ(read.job.strategy.units.at(0).where, "--no-reshard-after-forward");
}

// Entries stay in order, the command line's last; none is merged into another.
TEST(Units, Order) {
  Read read(R"(
[[strategy.unit]]
match = "h.3"
after_forward = 2
reduce = "each"
[[strategy.unit]]
match = "h.3"
after_forward = "free"
)");
  Overrides overrides;
  overrides.no_reshard_after_forward = true;
  overrides.units = {"h.3:after_forward=keep", "h.3:reduce = \"last\"", "h.4:reshard_after_forward=true",
                     "a:b:prefetch_forward=0"};
  read.apply(overrides);
  const std::vector<UnitOverride>& units = read.job.strategy.units;
  ASSERT_EQ(units.size(), 7u);
  EXPECT_FALSE(units[1].command_line);
  EXPECT_EQ(units[2].match, "*");
  EXPECT_EQ(units[3].after_forward->where, "--unit h.3:after_forward");
  EXPECT_EQ(units[4].reduce->value, Reduce::last);
  EXPECT_EQ(units[5].after_forward->value, AfterForward::free());
  EXPECT_EQ(units[6].match, "a:b");
  EXPECT_EQ(units[6].prefetch_forward->value, 0);

  for (std::size_t before = 0; before <= 3; ++before) {
    Read empty("");
    Overrides typed;
    typed.reshard_after_forward = "2";
    typed.units = {"a*:reduce=last", "b*:reduce=last"};
    typed.units_before = before;
    empty.apply(typed);
    ASSERT_EQ(empty.job.strategy.units.size(), 3u);
    EXPECT_EQ(empty.job.strategy.units[std::min<std::size_t>(before, 2)].match, "*");
  }
}

}  // namespace
}  // namespace reshard
