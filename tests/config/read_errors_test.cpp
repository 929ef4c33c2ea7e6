// What a wrong job file is told: the whole text of every kind of error, its place included.
// Each case is a text and the sentence it must give; the cases stand below the one body.

#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "tests/config/program.h"

namespace reshard {
namespace {

using test::error_of;

struct Case {
  const char* text;
  const char* error;
};

class ReadErrors : public testing::TestWithParam<Case> {};

TEST_P(ReadErrors, WholeText) {
  EXPECT_EQ(error_of([] { test::Read read(GetParam().text); }), GetParam().error);
}

INSTANTIATE_TEST_SUITE_P(
    UnknownNames, ReadErrors,
    testing::Values(
        Case{"[strategy]\nplugn = \"x\"\n",
             R"(job.toml:2:1: unknown key "plugn" in [strategy] (did you mean "plugin"?))"},
        Case{"[train]\n  lr = 1e-3\n",
             R"(job.toml:2:3: unknown key "lr" in [train] (did you mean "lr" in [optimizer]?))"},
        Case{"[memory]\nxyzzy = 1\n", R"(job.toml:2:1: unknown key "xyzzy" in [memory] (it has budget))"},
        Case{"steps = 3\n",
             R"(job.toml:1:1: unknown key "steps" outside of any table (did you mean "steps" in [train]?))"},
        Case{"trai = 3\n",
             R"(job.toml:1:1: unknown key "trai" outside of any table (did you mean the table [train]?))"},
        Case{"[strategy]\nprefetch_forward = 2\n",
             R"(job.toml:2:1: unknown key "prefetch_forward" in [strategy] (a plugin's options stand in )"
             R"([strategy.options.NAME], a unit's in [[strategy.unit]]))"},
        Case{"[trai]\nsteps = 1\n", "job.toml:1:2: unknown table [trai] (did you mean [train]?)"},
        Case{"[modell]\nlayers = 1\n", "job.toml:1:2: unknown table [modell] (did you mean [model]?)"},
        Case{"[strategy.units]\nx = 1\n",
             "job.toml:1:11: unknown table [strategy.units] (did you mean [[strategy.unit]]?)"},
        Case{"[optimizer]\nschedul = { name = \"cosine\" }\n",
             "job.toml:2:1: unknown table [optimizer.schedul] (did you mean [optimizer.schedule]?)"},
        Case{"[qqq]\n",
             "job.toml:1:2: unknown table [qqq] (the tables are strategy, mesh, precision, memory, train, optimizer, "
             "optimizer.schedule, plugins, model, data, strategy.options, strategy.unit, strategy.variant, "
             "strategy.switch, optimizer.group and plugins.pin)"},
        Case{"\"train.steps\" = 3\n", R"(job.toml:1:1: unknown key "train.steps" outside of any table)"},
        Case{"[model]\nlayer = 3\n", R"(job.toml:2:1: unknown key "layer" in [model] (did you mean "layers"?))"},
        Case{"[train]\nsteps = 1\nfoo = 1\nbar = 1\n",
             R"(job.toml:3:1: unknown key "foo" in [train] (it has steps, global_batch, microbatches, seed, )"
             R"(evaluate_every, divisor and stop_after_skipped))"}));

INSTANTIATE_TEST_SUITE_P(
    WrongTypes, ReadErrors,
    testing::Values(
        Case{"[train]\nsteps = \"10\"\n",
             R"(job.toml:2:1: train.steps must be an integer, not the string "10" (write it without quotes))"},
        Case{"[train]\nsteps = 1e3\n", "job.toml:2:1: train.steps must be an integer, not 1000.0 (write 1000)"},
        Case{"[train]\nsteps = 1.5\n", "job.toml:2:1: train.steps must be an integer, not 1.5"},
        Case{"[train]\nsteps = [1]\n", "job.toml:2:1: train.steps must be an integer, not a list of 1"},
        Case{"[train]\nsteps = { a = 1 }\n", "job.toml:2:1: train.steps must be a value, not a table"},
        Case{"[[train.steps]]\na = 1\n", "job.toml:1:9: train.steps must be a value, not a list of tables"},
        Case{"train = 3\n", "job.toml:1:1: [train] must be a table, not 3"},
        Case{"[[train]]\nsteps = 3\n", "job.toml:1:3: [train] must be a table, not a list of tables"},
        Case{"[mesh]\noverlap = \"true\"\n",
             R"(job.toml:2:1: mesh.overlap must be true or false, not the string "true" (write it without quotes))"},
        Case{"[mesh]\noverlap = 1\n", "job.toml:2:1: mesh.overlap must be true or false, not 1"},
        Case{"[mesh]\ntimeout = true\n", "job.toml:2:1: mesh.timeout must be a number, not true"},
        Case{"[strategy]\nplugin = 3\n", "job.toml:2:1: strategy.plugin must be a string, not 3 (write it in quotes)"},
        Case{"[strategy]\nshard_over = true\n", "job.toml:2:1: strategy.shard_over must be an integer, not true"},
        Case{"[memory]\nbudget = \"2 gigs\"\n",
             R"(job.toml:2:1: memory.budget must be a number of bytes, such as "2 GiB" or 1048576, not the )"
             R"(string "2 gigs")"},
        Case{"[memory]\nbudget = 1.5\n",
             R"(job.toml:2:1: memory.budget must be a number of bytes, such as "2 GiB" or 1048576, not 1.5)"},
        Case{"[optimizer]\nbetas = 0.9\n", "job.toml:2:1: optimizer.betas must be a list of 2 numbers, not 0.9"},
        Case{"[optimizer]\nbetas = [0.9]\n",
             "job.toml:2:1: optimizer.betas must be a list of 2 numbers, not a list of 1"},
        Case{"[optimizer]\nbetas = [0.9, \"x\"]\n",
             R"(job.toml:2:1: optimizer.betas must be a list of 2 numbers, not the string "x")"},
        Case{"[plugins]\npath = \"dir\"\n",
             R"(job.toml:2:1: plugins.path must be a list of strings, not the string "dir")"},
        Case{"[plugins]\npath = [3]\n", "job.toml:2:1: plugins.path must be a list of strings, not 3"},
        Case{"[mesh]\ndevice = 0\n", R"(job.toml:2:1: mesh.device must be "cpu" or "cuda", not 0)"},
        Case{"[model]\ntied = 1\n", "job.toml:2:1: model.tied must be true or false, not 1"},
        Case{"[model]\nscales = []\nnames = 1\n", "job.toml:3:1: model.names must be a list of strings, not 1"}));

INSTANTIATE_TEST_SUITE_P(
    OutOfRange, ReadErrors,
    testing::Values(
        Case{"[train]\nsteps = -1\n", "job.toml:2:1: train.steps must be between 0 and 1000000000, not -1"},
        Case{"[train]\nglobal_batch = 0\n", "job.toml:2:1: train.global_batch must be between 1 and 1000000000, not 0"},
        Case{"[train]\nseed = -1\n", "job.toml:2:1: train.seed must be 0 or more, not -1"},
        Case{"[mesh]\ntimeout = 0\n", "job.toml:2:1: mesh.timeout must be above 0 and at most 1000000, not 0"},
        Case{"[mesh]\nranks = 4294967297\n", "job.toml:2:1: mesh.ranks must be between 0 and 65536, not 4294967297"},
        Case{"[mesh]\ndevice = \"cudaa\"\n",
             R"(job.toml:2:1: mesh.device must be "cpu" or "cuda", not "cudaa" (did you mean "cuda"?))"},
        Case{"[mesh]\ncommunicator = \"gloo\"\n",
             R"(job.toml:2:1: mesh.communicator must be "threads", "mpi", "nccl" or "shared_device", not "gloo")"},
        Case{"[memory]\nbudget = -1\n", "job.toml:2:1: memory.budget must be 0 or more, not -1"},
        Case{"[optimizer]\nlr = nan\n", "job.toml:2:1: optimizer.lr must be a finite number, not nan"},
        Case{"[optimizer]\nlr = -1\n", "job.toml:2:1: optimizer.lr must be 0 or more, not -1"},
        Case{"[optimizer]\neps = 0.0\n", "job.toml:2:1: optimizer.eps must be above 0, not 0"},
        Case{"[optimizer]\nbetas = [0.9, 1]\n",
             "job.toml:2:1: optimizer.betas must be a list of numbers 0 or more and below 1, not 1"},
        Case{"[optimizer]\nschedule = { name = \"cosine\", final_ratio = 2 }\n",
             "job.toml:2:31: optimizer.schedule.final_ratio must be between 0 and 1, not 2"},
        Case{"[strategy]\nplugin = \"\"\n", "job.toml:2:1: strategy.plugin must not be empty"},
        Case{"[strategy]\nshard_over = -2\n", "job.toml:2:1: strategy.shard_over must be between 0 and 65536, not -2"},
        Case{"[strategy]\nall_reduce = \"las\"\n",
             R"(job.toml:2:1: strategy.all_reduce must be "each" or "last", not "las" (did you mean "last"?))"},
        Case{"[strategy]\nbackward_order = \"since_steps\"\n",
             "job.toml:2:1: strategy.backward_order must be \"micro_batch\", \"since_backward\" or \"since_step\", "
             "not \"since_steps\" (did you mean \"since_step\"?)"},
        Case{"[model]\nlayers = 0\n", "job.toml:2:1: model.layers must be between 1 and 1000, not 0"},
        Case{"[model]\nrate = 1\n", "job.toml:2:1: model.rate must be above 0 and below 1, not 1"},
        Case{"[model]\nscales = [0, inf]\n", "job.toml:2:1: model.scales must be a list of finite numbers, not inf"},
        Case{"[model]\nunits = \"roots\"\n",
             R"(job.toml:2:1: model.units must be "root" or "split", not "roots" (did you mean "root"?))"}));

INSTANTIATE_TEST_SUITE_P(
    Units, ReadErrors,
    testing::Values(
        Case{"[[strategy.unit]]\nmatch = \"a\"\nafter_forward = true\n",
             R"(job.toml:3:1: strategy.unit.after_forward must be "free", "keep" or a number of ranks, not true )"
             R"((write reshard_after_forward = true))"},
        Case{"[[strategy.unit]]\nmatch = \"a\"\nafter_forward = \"true\"\n",
             R"(job.toml:3:1: strategy.unit.after_forward must be "free", "keep" or a number of ranks, not the string )"
             R"("true" (write reshard_after_forward = true, without quotes))"},
        Case{"[[strategy.unit]]\nmatch = \"a\"\nafter_forward = \"2\"\n",
             R"(job.toml:3:1: strategy.unit.after_forward must be "free", "keep" or a number of ranks, not the string )"
             R"("2" (write it without quotes))"},
        Case{"[[strategy.unit]]\nmatch = \"a\"\nafter_forward = \"kep\"\n",
             R"(job.toml:3:1: strategy.unit.after_forward must be "free", "keep" or a number of ranks, not the string )"
             R"("kep" (did you mean "keep"?))"},
        Case{"[[strategy.unit]]\nmatch = \"a\"\nafter_forward = 0\n",
             "job.toml:3:1: strategy.unit.after_forward must be between 1 and 65536, not 0"},
        Case{"[[strategy.unit]]\nmatch = \"a\"\nreshard_after_forward = -2\n",
             "job.toml:3:1: strategy.unit.reshard_after_forward must be between 1 and 65536, not -2"},
        Case{"[[strategy.unit]]\nmatch = \"a\"\nafter_forward = 1.0\n",
             R"(job.toml:3:1: strategy.unit.after_forward must be "free", "keep" or a number of ranks, not 1.0)"},
        Case{"[[strategy.unit]]\nmatch = \"a\"\nreshard_after_forward = \"true\"\n",
             R"(job.toml:3:1: strategy.unit.reshard_after_forward must be true, false or a number of ranks, not the )"
             R"(string "true" (write it without quotes))"},
        Case{"[[strategy.unit]]\nmatch = \"a\"\nreshard_after_forward = \"keep\"\n",
             R"(job.toml:3:1: strategy.unit.reshard_after_forward must be true, false or a number of ranks, not the )"
             R"(string "keep" (write after_forward = "keep"))"},
        Case{"[[strategy.unit]]\nmatch = \"a\"\nafter_forward = 2\nreshard_after_forward = 2\n",
             "job.toml:4:1: an entry has both after_forward and reshard_after_forward (they are two spellings of one "
             "field: keep one)"},
        Case{"[[strategy.unit]]\nmatch = \"a\"\nafter_backward = 2\n",
             R"(job.toml:3:1: strategy.unit.after_backward must be "free" or "keep", not 2)"},
        Case{"[[strategy.unit]]\nmatch = \"a\"\nreduce = \"eech\"\n",
             R"(job.toml:3:1: strategy.unit.reduce must be "each" or "last", not "eech" (did you mean "each"?))"},
        Case{"[[strategy.unit]]\nmatch = \"a\"\nparam_dtype = \"bf61\"\n",
             R"(job.toml:3:1: strategy.unit.param_dtype must be "fp32" or "bf16", not "bf61" (did you mean "bf16"?))"},
        Case{"[[strategy.unit]]\nmatch = \"a\"\nprefetch_forward = 9\n",
             "job.toml:3:1: strategy.unit.prefetch_forward must be between 0 and 8, not 9"},
        Case{
            "[[strategy.unit]]\nmatch = \"a\"\nprefech_backward = 1\n",
            R"(job.toml:3:1: unknown key "prefech_backward" in [[strategy.unit]] (did you mean "prefetch_backward"?))"},
        Case{"[[strategy.unit]]\nmatch = \"a\"\nzzz = 1\n",
             R"(job.toml:3:1: unknown key "zzz" in [[strategy.unit]] (it has match, after_forward, )"
             R"(reshard_after_forward, after_backward, reduce, prefetch_forward, prefetch_backward and param_dtype))"},
        Case{"\n[[strategy.unit]]\nreduce = \"last\"\n",
             R"(job.toml:2:1: a [[strategy.unit]] entry has no match (write match = "h.*": a unit's name, a glob, or )"
             R"("root"))"},
        Case{"\n[[strategy.unit]]\nmatch = \"a\"\n",
             "job.toml:2:1: a [[strategy.unit]] entry has a match and sets nothing (add what it is to set, as in "
             "after_forward = \"keep\", or leave the entry out)"},
        Case{"[[optimizer.group]]\nmatch = \"a\"\n",
             "job.toml:1:1: a [[optimizer.group]] entry has a match and sets nothing (add what it is to set, as in "
             "weight_decay = 0, or leave the entry out)"},
        Case{"[[strategy.unit]]\nmatch = \"\"\n", "job.toml:2:1: strategy.unit.match must not be empty"},
        Case{"[strategy.unit]\nmatch = \"a\"\n",
             "job.toml:1:11: strategy.unit must be a list of tables (write [[strategy.unit]])"}));

INSTANTIATE_TEST_SUITE_P(
    OptionsVariantsSwitches, ReadErrors,
    testing::Values(
        Case{"[strategy.options]\nacme = 3\n",
             "job.toml:2:1: [strategy.options.acme] must be a table of a plugin's options (write "
             "[strategy.options.NAME] with the plugin's name)"},
        Case{"[strategy.options.acme.inner]\na = 3\n",
             "job.toml:1:24: strategy.options.acme.inner must be a value or a list, not a table (a plugin's options "
             "are plain values)"},
        Case{"[[strategy.variant]]\nplugin = \"acme\"\n",
             "job.toml:1:1: a [[strategy.variant]] entry has no name (write name = …: what --strategy and --strategies "
             "call it)"},
        Case{"[[strategy.variant]]\nname = \"a\"\nplugin = \"b\"\n[[strategy.variant]]\nname = \"a\"\nplugin = \"c\"\n",
             R"(job.toml:4:1: two variants have the name "a" (the other one is at job.toml:1:1))"},
        Case{"[[strategy.variant]]\nname = \"\"\nplugin = \"b\"\n",
             "job.toml:2:1: strategy.variant.name must not be empty"},
        Case{"[mesh]\n[[strategy.variant]]\nname = \"a,b\"\nplugin = \"b\"\n",
             "job.toml:2:1: the variant's name \"a,b\" holds a comma, which separates the names of --strategies "
             "(name it with letters, digits, \"_\", \"-\" and \".\")"},
        Case{"[mesh]\n[[strategy.variant]]\nname = \"a b\"\nplugin = \"b\"\n",
             "job.toml:2:1: the variant's name \"a b\" holds a blank or a control character "
             "(name it with letters, digits, \"_\", \"-\" and \".\")"},
        Case{"[mesh]\n[[strategy.variant]]\nname = \"a/b\"\nplugin = \"b\"\n",
             "job.toml:2:1: the variant's name \"a/b\" reads as the path of a file "
             "(name it with letters, digits, \"_\", \"-\" and \".\")"},
        Case{"[mesh]\n[[strategy.variant]]\nname = \"b.so\"\nplugin = \"b\"\n",
             "job.toml:2:1: the variant's name \"b.so\" reads as the path of a file "
             "(name it with letters, digits, \"_\", \"-\" and \".\")"},
        Case{"[mesh]\n[[strategy.variant]]\nname = \"-b\"\nplugin = \"b\"\n",
             "job.toml:2:1: the variant's name \"-b\" reads as an option of the command line "
             "(name it with letters, digits, \"_\", \"-\" and \".\")"},
        Case{"[[strategy.variant]]\nname = \"a\"\noption = {}\n",
             R"(job.toml:3:1: unknown key "option" in [[strategy.variant]] (did you mean "options"?))"},
        Case{"[[strategy.variant]]\nname = \"a\"\noptions = 3\n",
             "job.toml:3:1: strategy.variant.options must be a table (write options = { key = value })"},
        Case{"[[strategy.switch]]\nplugin = \"acme\"\n",
             "job.toml:1:1: a [[strategy.switch]] entry has no at_step (write at_step = …: after so many finished "
             "steps)"},
        Case{"[[strategy.switch]]\nat_step = 0\nplugin = \"acme\"\n",
             "job.toml:2:1: strategy.switch.at_step must be between 1 and 1000000000, not 0"},
        Case{"[[strategy.switch]]\nat_step = 9\nplugin = \"a\"\n[[strategy.switch]]\nat_step = 9\nplugin = \"b\"\n",
             "job.toml:4:1: strategy.switch.at_step must rise from entry to entry, but 9 comes after 9 (write the "
             "entries in the order of their steps)"}));

INSTANTIATE_TEST_SUITE_P(
    NoToml, ReadErrors,
    testing::Values(
        Case{"[train]\nsteps = 1\nsteps = 2\n",
             "job.toml:3:9: not valid TOML: cannot redefine existing integer 'steps', in the key-value pair (write "
             "each key and each table once)"},
        Case{"[strategy]\nplugin = acme\n",
             "job.toml:2:10: not valid TOML: could not determine value type, in the value (text needs quotes: key = "
             "\"text\")"},
        Case{"[train\nsteps = 1\n", "job.toml:1:7: not valid TOML: expected ']', saw '\\n', in the table header"},
        Case{"\xff = 1\n", "job.toml:1:1: not valid TOML: Encountered invalid utf-8 sequence"},
        Case{"[train]\nsteps = 2024-01-02\n",
             "job.toml:2:9: no key takes a date or a time (text needs quotes: key = \"text\")"},
        Case{"[train]\nsteps = [1, { a = 2 }]\n",
             "job.toml:2:13: a list holds both tables and values (write one kind in one list)"},
        // The column counts characters and the line ends of Windows count once.
        Case{"# é\r\n[data]\r\npath = \"é\"\r\ncach = 1\r\n",
             R"(job.toml:4:1: unknown key "cach" in [data] (did you mean "cache"?))"},
        Case{
            "optimizer = { \"é\" = 1 }\n",
            R"(job.toml:1:15: unknown key "é" in [optimizer] (it has name, lr, betas, eps, momentum, weight_decay, )"
            R"(clip_norm and norm))"}));

// A dotted key of twenty thousand parts once overflowed the stack.
TEST(ReadErrors, AKeyOfThousandsOfPartsIsRefused) {
  std::string deep = "a";
  for (int part = 0; part < 20000; ++part) deep += ".a";
  const std::string refused = ": a key has more than 256 parts (no table of a job is that deep)";
  EXPECT_EQ(error_of([&] { test::Read read(deep + " = 1\n"); }), "job.toml:1:512" + refused);
  EXPECT_EQ(error_of([&] { test::Read read("[train]\n[" + deep + "]\n"); }), "job.toml:2:513" + refused);
}

TEST(ReadFile, WhatIsNoJobFile) {
  EXPECT_EQ(error_of([] { read_job("no/such.toml"); }), "no/such.toml: there is no such job file (check the path)");
  const std::string folder = testing::TempDir() + "reshard_read_folder";
  std::filesystem::create_directories(folder);
  EXPECT_EQ(error_of([&] { read_job(folder); }),
            folder + ": the job file is a folder (give the path of a TOML file in it)");
  const std::string large = folder + "/large.toml", fifo = folder + "/fifo.toml";
  std::ofstream(large).close();
  std::filesystem::resize_file(large, (std::size_t{16} << 20) + 1);
  EXPECT_EQ(error_of([&] { read_job(large); }), large + ": the job file has more than 16 MiB (check the path)");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);  // nobody writes to it: opened as a file is, it would be waited for
  EXPECT_EQ(error_of([&] { read_job(fifo); }),
            fifo + ": the job file is not a regular file (give the path of a TOML file)");
  EXPECT_EQ(error_of([] { read_job("/dev/zero"); }),
            "/dev/zero: the job file is not a regular file (give the path of a TOML file)");
  std::filesystem::remove_all(folder);
  EXPECT_EQ(error_of([] { read_job("/etc/passwd/x"); }), "/etc/passwd/x: cannot read the job file: Not a directory");
}

TEST(ReadFile, PlacesHoldThePathAsGiven) {
  const std::string folder = testing::TempDir() + "/reshard_places_" + std::to_string(getpid());
  std::filesystem::create_directories(folder + "/inside");
  const std::string path = std::filesystem::relative(folder).string() + "/inside/../bad.toml";
  std::ofstream(path) << "[train]\nstep = 1\n";
  EXPECT_EQ(error_of([&] { read_job(path); }),
            path + ":2:1: unknown key \"step\" in [train] (did you mean \"steps\"?)");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace reshard
