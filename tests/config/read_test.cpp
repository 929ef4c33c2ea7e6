// A job file's values reach the fields, with their places; what is absent keeps its default.

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "tests/config/program.h"

namespace reshard {
namespace {

using test::Read;

constexpr const char* kJob = R"([strategy]
plugin = "acme_deep"
shard_over = 2
all_reduce = "last"
backward_order = "since_step"

[strategy.options.acme_deep]
depth = 3
names = ["a", ["b", 1.5]]

[strategy.options.other]   # of a plugin that does not run
"odd key" = true

[[strategy.unit]]
match = "h.*"
after_forward = "keep"
prefetch_forward = 0

[[strategy.unit]]
match = "root"
reshard_after_forward = 4
after_backward = "keep"
reduce = "last"
prefetch_backward = 8
param_dtype = "bf16"
[[strategy.variant]]
name = "deep"
plugin = "sub/own.so"
options = { depth = 4 }

[[strategy.switch]]
at_step = 100
plugin = "other"

[mesh]
ranks = 3
device = "cuda"
communicator = "nccl"
ranks_per_node = 1
overlap = true
timeout = 5
reduce_order = "native"

[memory]
budget = "1.5 GiB"

[train]
steps = 0
global_batch = 32
microbatches = 4
seed = 9223372036854775807
evaluate_every = 10
divisor = "tokens"
stop_after_skipped = 3

[precision]
param_dtype = "bf16"

[optimizer]
name = "sgd"
lr = 1
betas = [0, 0.5]
eps = 1e-9
momentum = 0.9
weight_decay = 0.1
clip_norm = 1.0
norm = "inf"
schedule = { name = "cosine", warmup_steps = 30, final_ratio = 0.2 }

[[optimizer.group]]
match = "*.bias"
lr_scale = 0.5
weight_decay = 0

[[optimizer.group]]
match = "wte"
weight_decay = 0.25

[plugins]
path = ["plugins", "/opt/plugins"]

[model]
layers = 12
units = "split"
tied = false
scales = [1, 2.5]
names = []

[data]
path = "corpus"
cache = 4096
)";

TEST(Read, EveryKey) {
  const Read read(kJob, "/jobs/job.toml");
  const Job& job = read.job;
  EXPECT_EQ(job.file, "/jobs/job.toml");
  EXPECT_EQ(job.strategy.plugin, "acme_deep");
  EXPECT_EQ(job.strategy.shard_over, 2);
  EXPECT_EQ(job.strategy.all_reduce, AllReduce::last);
  EXPECT_EQ(job.strategy.backward_order, "since_step");
  EXPECT_EQ(job.mesh, (Job::Mesh{3, "cuda", "nccl", 1, true, 5, "native"}));
  EXPECT_EQ(job.memory.budget, int64_t{3} << 29);
  EXPECT_EQ(job.train, (Job::Train{0, 32, 4, 9223372036854775807u, 10, "tokens", 3}));
  EXPECT_EQ(job.precision, (Job::Precision{"bf16", "fp32"}));
  Job::Optimizer optimizer{"sgd", 1, {0, 0.5}, 1e-9, 0.9, 0.1, 1, "inf", {"cosine", 30, 0.2}, {}};
  optimizer.groups = {{"*.bias", 0.5, 0.0, "/jobs/job.toml:51:1"}, {"wte", {}, 0.25, "/jobs/job.toml:56:1"}};
  EXPECT_EQ(job.optimizer, optimizer);
  EXPECT_EQ(job.plugins.path, (std::vector<std::string>{"/jobs/plugins", "/opt/plugins"}));
  EXPECT_EQ(read.network.layers, 12);
  EXPECT_EQ(read.network.units, "split");
  EXPECT_FALSE(read.network.tied);
  EXPECT_EQ(read.network.scales, (std::vector<double>{1, 2.5}));
  EXPECT_TRUE(read.network.names.empty());
  EXPECT_EQ(read.network.path, "/jobs/corpus");
  EXPECT_EQ(read.network.cache, 4096);
}

TEST(Read, OptionsStayRawWithTheirPlaces) {
  const Read read(kJob, "/jobs/job.toml");
  const auto& options = read.job.strategy.options;
  ASSERT_EQ(options.size(), 2u);
  const OptionValue& depth = options.at("acme_deep").at("depth");
  EXPECT_EQ(std::get<int64_t>(depth.value), 3);
  EXPECT_EQ(depth.where, "/jobs/job.toml:8:1");
  const auto& names = std::get<OptionValue::List>(options.at("acme_deep").at("names").value);
  EXPECT_EQ(std::get<std::string>(names[0].value), "a");
  EXPECT_EQ(std::get<double>(std::get<OptionValue::List>(names[1].value)[1].value), 1.5);
  EXPECT_EQ(names[0].where, "/jobs/job.toml:9:10");
  EXPECT_TRUE(std::get<bool>(options.at("other").at("odd key").value));
}

TEST(Read, UnitsVariantsSwitches) {
  const Read read(kJob, "/jobs/job.toml");
  const Job::Strategy& strategy = read.job.strategy;
  ASSERT_EQ(strategy.units.size(), 2u);
  const UnitOverride& h = strategy.units[0];
  EXPECT_EQ(h.match, "h.*");
  EXPECT_EQ(h.where, "/jobs/job.toml:14:1");
  EXPECT_EQ(h.after_forward->value, AfterForward::keep());
  EXPECT_EQ(h.after_forward->where, "/jobs/job.toml:16:1");
  EXPECT_EQ(h.prefetch_forward->value, 0);
  EXPECT_FALSE(h.after_backward || h.reduce || h.prefetch_backward || h.param_dtype || h.command_line);
  const UnitOverride& root = strategy.units[1];
  EXPECT_EQ(root.after_forward->value, AfterForward::shrink(4));
  EXPECT_EQ(root.after_backward->value, AfterBackward::keep);
  EXPECT_EQ(root.reduce->value, Reduce::last);
  EXPECT_EQ(root.prefetch_backward->value, 8);
  EXPECT_EQ(root.param_dtype->value, Dtype::bf16);

  ASSERT_EQ(strategy.variants.size(), 1u);
  EXPECT_EQ(strategy.variants[0].name, "deep");
  EXPECT_EQ(strategy.variants[0].plugin, "/jobs/sub/own.so");
  EXPECT_EQ(strategy.variants[0].options.at("depth").where, "/jobs/job.toml:29:13");
  ASSERT_EQ(strategy.switches.size(), 1u);
  EXPECT_EQ(strategy.switches[0].at_step, 100);
  EXPECT_EQ(strategy.switches[0].where, "/jobs/job.toml:31:1");
}

TEST(Read, BothSpellingsOfAfterForward) {
  const Read read(R"(strategy.unit = [
    { match = "a", reshard_after_forward = true }, { match = "b", reshard_after_forward = false },
    { match = "c", after_forward = "free" }, { match = "d", after_forward = 1 }])");
  const auto value = [&](std::size_t i) { return read.job.strategy.units[i].after_forward->value; };
  EXPECT_EQ(value(0), AfterForward::free());
  EXPECT_EQ(value(1), AfterForward::keep());
  EXPECT_EQ(value(2), AfterForward::free());
  EXPECT_EQ(value(3), AfterForward::shrink(1));
  EXPECT_EQ(read.job.strategy.units[1].where, "job.toml:2:52");
}

TEST(Read, WhereValuesCameFrom) {
  const Read read(kJob);
  EXPECT_EQ(read.job.where("strategy.plugin"), "job.toml:2:1");
  EXPECT_EQ(read.job.where("optimizer.schedule.name"), "job.toml:68:14");
  EXPECT_EQ(read.job.where("model.layers"), "job.toml:83:1");
  EXPECT_EQ(read.program[0].where("layers"), "job.toml:83:1");
  EXPECT_EQ(read.program[0].where("rate"), "default");
  EXPECT_EQ(read.job.where("model.rate"), "default");
  EXPECT_TRUE(read.job.replaced.empty());
}

TEST(Read, EmptyTextGivesTheDefaults) {
  const Read read("");
  const Job plain;
  EXPECT_EQ(read.job.mesh, plain.mesh);
  EXPECT_EQ(read.job.train, plain.train);
  EXPECT_EQ(read.job.optimizer, plain.optimizer);
  EXPECT_EQ(read.job.strategy.plugin, "");
  EXPECT_EQ(read.network, test::Network{});
}

TEST(Read, WindowsLineEndsMarkAndUtf8) {
  const Read read("\xEF\xBB\xBF[train]\r\nsteps = 5\r\n[data]\r\npath = \"/t/\xC3\xA9\"\r\n");
  EXPECT_EQ(read.job.train.steps, 5);
  EXPECT_EQ(read.network.path, "/t/\xC3\xA9");
}

// A path in the file starts at the file's folder, wherever the program runs; a name is left alone.
TEST(Read, PathsStartAtTheFile) {
  const std::string here = std::filesystem::current_path().string();
  EXPECT_EQ(Read("[strategy]\nplugin = \"./own.so\"", "sub/job.toml").job.strategy.plugin, here + "/sub/own.so");
  EXPECT_EQ(Read("[strategy]\nplugin = \"own.so\"", "job.toml").job.strategy.plugin, here + "/own.so");
  EXPECT_EQ(Read("[strategy]\nplugin = \"../x/own\"", "/a/b/job.toml").job.strategy.plugin, "/a/x/own");
  EXPECT_EQ(Read("[strategy]\nplugin = \"/abs/own.so\"", "/a/job.toml").job.strategy.plugin, "/abs/own.so");
  EXPECT_EQ(Read("[strategy]\nplugin = \"own\"", "/a/job.toml").job.strategy.plugin, "own");
}

TEST(Read, FromAFile) {
  const std::string path = testing::TempDir() + "reshard_read_job.toml";
  std::ofstream(path) << "[train]\nsteps = 7\n";
  const Job job = read_job(path);
  EXPECT_EQ(job.train.steps, 7);
  EXPECT_EQ(job.where("train.steps"), path + ":2:1");
  std::filesystem::remove(path);
}

// A table of a program may be the table of a table, also where the outer one has no keys of its own.
TEST(Read, NestedProgramTables) {
  int depth = 1, width = 1;
  Tables program;
  program.emplace_back("net.head", "").key("depth", &depth);
  program.emplace_back("train.extra", "").key("width", &width);
  Job job;
  config::read_text("[net.head]\ndepth = 2\n[train]\nextra = { width = 3 }\n", "job.toml", job, program);
  EXPECT_EQ(depth, 2);
  EXPECT_EQ(width, 3);
  EXPECT_EQ(test::error_of([&] { config::read_text("[net]\ndepth = 1\n", "job.toml", job, program); }),
            R"(job.toml:2:1: unknown key "depth" in [net] (did you mean "depth" in [net.head]?))");
}

}  // namespace
}  // namespace reshard
