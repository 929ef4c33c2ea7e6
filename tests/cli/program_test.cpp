// Whole programs as child processes: the example and `reshard`, their exit codes, and how a signal ends a run.

#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "plugin/catalog.h"
#include "tests/cli/run_app.h"
#include "tests/shipped.h"

extern char** environ;

namespace reshard::cli {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

const std::string kBin = std::string(RESHARD_BINARY_DIR) + "/bin/";
const std::string kJob = std::string(RESHARD_SOURCE_DIR) + "/examples/mlp/job.toml";

class Child {
 public:
  explicit Child(std::vector<std::string> arguments) {
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 1, folder_.file("out").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_addopen(&files, 2, folder_.file("err").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    began_ = Clock::now();
    if (posix_spawn(&pid_, argv[0], &files, nullptr, argv.data(), environ) != 0) pid_ = -1;
    posix_spawn_file_actions_destroy(&files);
  }
  void signal(int number) const { kill(pid_, number); }
  std::string out() const { return text_of(folder_.file("out")); }
  // Waits until it has printed `text`, at most 30 s.
  bool has_printed(const std::string& text) const {
    for (int i = 0; i < 3000; ++i) {
      if (out().find(text) != std::string::npos) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }
  AppRun wait() {
    if (pid_ < 0) return {-1, "", "could not be started"};
    int status = 0;
    rusage usage{};
    wait4(pid_, &status, 0, &usage);
    const auto seconds = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    };
    cpu_seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime);
    wall_seconds = std::chrono::duration<double>(Clock::now() - began_).count();
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), out(), text_of(folder_.file("err"))};
  }
  double cpu_seconds = 0, wall_seconds = 0;

 private:
  Folder folder_;
  pid_t pid_ = -1;
  Clock::time_point began_;
};

TEST(Mlp, LearnsItsSurface) {
  const Folder folder;
  const AppRun run = Child({kBin + "mlp", "train", kJob, "--json", folder.file("run.json")}).wait();
  EXPECT_EQ(run.code, 0) << run.err;
  const json out = json_of(folder.file("run.json"));
  EXPECT_LT(out.at("steps").back().at("loss").get<double>(), 0.1 * out["steps"][0].at("loss").get<double>());
  const json& memory = out.at("memory");
  EXPECT_EQ(memory.at("predicted").at("total"), memory.at("measured").at("total"));
  EXPECT_NE(run.out.find("\nnext: " + kBin + "mlp compare " + kJob + " --strategies "), std::string::npos);
}

// Sanitizers make everything several times slower; what is measured there says nothing about a user's second.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kTimed = false;
#elif defined(__has_feature)
constexpr bool kTimed = !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer);
#else
constexpr bool kTimed = true;
#endif

struct BadInput {
  std::vector<std::string> arguments;
  int code;
  std::string err;  // all of it, or with "…" at the end its beginning
};

// The exact error on one line, the exit code, and all of it within a second: of three tries the fastest, because the
// machine may be busy with other tests.
void expect_refused(const std::string& program, const BadInput& bad) {
  std::vector<std::string> arguments{kBin + program};
  arguments.insert(arguments.end(), bad.arguments.begin(), bad.arguments.end());
  double fastest = 1e9;
  for (int attempt = 0; attempt < 3 && (attempt == 0 || (kTimed && fastest >= 1)); ++attempt) {
    Child child(arguments);
    const AppRun run = child.wait();
    fastest = std::min(fastest, child.wall_seconds);
    EXPECT_EQ(run.code, bad.code) << run.err;
    if (const std::string more = "…"; bad.err.ends_with(more))
      EXPECT_TRUE(run.err.starts_with(bad.err.substr(0, bad.err.size() - more.size()))) << run.err;
    else
      EXPECT_EQ(run.err, bad.err);
    EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
  }
  if (kTimed) {
    EXPECT_LT(fastest, 1.0) << bad.err;
  }
}

TEST(Mlp, SaysWhatIsWrongAtOnce) {
  const std::string licence = RESHARD_SOURCE_DIR "/LICENSE", folders = RESHARD_BINARY_DIR;
  for (const BadInput& bad : std::vector<BadInput>{
           {{"train", "none.toml"}, 2, "mlp: none.toml: there is no such job file (check the path)\n"},
           {{"train", kJob, "--strategy", "zero9"},
            2,
            "mlp: --strategy: there is no strategy \"zero9\"; tried " +
                plugin::short_path(folders + "/plugins/zero9.so") + " (beside the program)…"},
           {{"train", kJob, "--strategy", licence},
            2,
            "mlp: --strategy: plugin " + licence +
                " is not an ELF file (name a file that reshard_add_strategy has built) [elf.type]\n"},
           {{"train", kJob, "--set", "memory.budget=1 KiB"},
            2,
            "mlp: --set memory.budget: strategy zero3 needs 44.6 KiB per rank at its predicted peak (unit layer.2, "
            "before "
            "backward, micro-batch 1), above the budget of 1 KiB; largest: activations 10.1 KiB, optimizer state 10 "
            "KiB and "
            "gradients 10 KiB (use more ranks or smaller micro-batches, or raise the budget)\n"},
           {{"train", kJob, "--set", "model.deep=1"},
            2,
            "mlp: --set model.deep: unknown key \"deep\" in [model] (it has layers and width)\n"},
           {{"train", kJob, "--ranks", "5"},
            2,
            "mlp: " + kJob + ":12:1: train.global_batch = 64 does not divide among 5 ranks…"},
           {{"explain", kJob, "--unit", "nobody:reduce=each"},
            2,
            "mlp: --unit nobody:reduce: no unit matches \"nobody\" (the model's units: head, layer.0, layer.1 and "
            "layer.2)\n"},
           {{"train", kJob, "--set", "strategy.shard_over=3"},
            2,
            "mlp: --set strategy.shard_over: shard_over = 3 does not divide the 2 ranks (use 0 (all ranks) or one of 1 "
            "and 2)\n"},
           {{"train", kJob, "--set", "optimizer.lr=1e30"}, 1, "mlp: the loss is …"},
           {{"train", kJob, "--json", "/none/run.json"},
            2,
            "mlp: /none/run.json: cannot write the JSON: No such file or directory (check the folder of --json)\n"},
           {{"train", kJob, "--json", "/dev/full", "--steps", "1"},
            1,
            "mlp: /dev/full: cannot write the JSON: No space left on device\n"},
           {{},
            2,
            "mlp: command line: no command is given (one of train, explain, compare and plugins; see mlp --help)\n"}})
    expect_refused("mlp", bad);
}

#ifdef RESHARD_HAS_GPT
TEST(Gpt, SaysWhatIsWrongAtOnce) {
  const Folder folder;
  const std::string job = RESHARD_SOURCE_DIR "/examples/gpt/job.toml", empty = folder.write("empty.txt", ""),
                    small = folder.write("small.txt", std::string(2000, 'x')), none = folder.file("none.txt");
  for (const BadInput& bad :
       std::vector<BadInput>{{{"train", job, "--data", none},
                              2,
                              "gpt: --data: \"" + none + "\" does not exist (name a file or folder of text)\n"},
                             {{"train", job, "--data", empty},
                              2,
                              "gpt: --data: \"" + empty + "\" holds no text (name a file or folder of text)\n"},
                             {{"train", job, "--data", small, "--ranks", "16", "--set", "train.microbatches=1"},
                              2,
                              "gpt: --data: \"" + small +
                                  "\" has 2000 bytes of text, too little for 16 ranks: each needs a sequence of 129 "
                                  "bytes, and the last tenth, "
                                  "for validation, one more (name more text, or lower mesh.ranks or model.sequence)\n"},
                             {{"train", job, "--set", "model.heads=7"},
                              2,
                              "gpt: --set model.heads: heads = 7 does not divide width = 256 (heads can be 1, 2, 4, 8, "
                              "16, 32, 64, 128 and "
                              "256)\n"}})
    expect_refused("gpt", bad);
}
#endif

// Bytes of a batch that no 32-bit number counts.
TEST(Mlp, ActivationsGrowWithTheBatch) {
  const auto activations = [](const std::string& batch) {
    const AppRun run = Child({kBin + "mlp", "explain", kJob, "--ranks", "1", "--set", "train.microbatches=1", "--set",
                              "train.global_batch=" + batch, "--json", "-"})
                           .wait();
    EXPECT_EQ(run.code, 0) << run.err;
    const json out = json::parse(run.out);
    return out.at("plan").at("predicted_peak").at("by_category").at("activations").get<int64_t>();
  };
  EXPECT_EQ(activations("1000000000"), 1'000'000 * activations("1000"));
}

TEST(Mlp, ASignalEndsAllRanksAfterTheRunningStep) {
  for (const int number : {SIGINT, SIGTERM}) {
    const Folder folder;
    Child child(
        {kBin + "mlp", "train", kJob, "--ranks", "4", "--steps", "1000000000", "--json", folder.file("run.json")});
    ASSERT_TRUE(child.has_printed("\n      0    ")) << child.out();
    child.signal(number);
    const AppRun run = child.wait();
    EXPECT_EQ(run.code, 130) << run.err;
    EXPECT_EQ(run.err, "");
    EXPECT_NE(run.out.find(number == SIGINT ? "\nstopped by SIGINT after " : "\nstopped by SIGTERM after "),
              std::string::npos)
        << run.out;
    EXPECT_NE(run.out.find("\npeak of the fullest rank"), std::string::npos) << run.out;
    const json out = json_of(folder.file("run.json"));
    EXPECT_TRUE(out.at("interrupted"));
    EXPECT_GE(out.at("steps").size(), 1U);
    EXPECT_EQ(out["steps"].size(), out.at("report").at("steps"));
  }
}

#ifdef RESHARD_HAS_GPT
// The sample would take hours.
TEST(Gpt, ASignalEndsTheSampleToo) {
  const Folder folder;
  for (const int number : {SIGINT, SIGTERM}) {
    Child child({kBin + "gpt", "train", RESHARD_SOURCE_DIR "/examples/gpt/job.toml", "--steps", "1", "--data",
                 RESHARD_SOURCE_DIR "/LICENSE", "--set", "model={ layers = 1, width = 16, heads = 1, sequence = 32 }",
                 "--set", "sample.tokens=1000000000", "--set", "train.evaluate_every=0", "--json",
                 folder.file("run.json")});
    ASSERT_TRUE(child.has_printed("\n      0    ")) << child.out();
    child.signal(number);
    const AppRun run = child.wait();
    EXPECT_EQ(run.code, 130) << run.err;
    EXPECT_EQ(run.err, "");
    EXPECT_NE(
        run.out.find(number == SIGINT ? "\nstopped by SIGINT after 1 step\n" : "\nstopped by SIGTERM after 1 step\n"),
        std::string::npos)
        << run.out;
    EXPECT_NE(run.out.find("\npeak of the fullest rank"), std::string::npos) << run.out;
    EXPECT_TRUE(json_of(folder.file("run.json")).at("interrupted"));
  }
}
#endif

// Before the first turn is over there is nothing to show; after it there is a table.
TEST(Mlp, ASignalEndsAComparison) {
  Child early({kBin + "mlp", "compare", kJob, "--strategies", "zero3,zero2", "--blocks", "1000000"});
  ASSERT_TRUE(early.has_printed("in turns on one training state"));
  early.signal(SIGINT);
  AppRun run = early.wait();
  EXPECT_EQ(run.code, 130);
  EXPECT_TRUE(run.err.starts_with("mlp: stopped after ")) << run.err;
  EXPECT_TRUE(run.err.ends_with(" (nothing is compared yet)\n")) << run.err;

  // How far it is shows on a terminal only, so signals come after other times until one meets the second part, which six arms make six times as long as the first.
  double wait = 0.1;
  for (int attempt = 0; attempt < 40; ++attempt) {
    const Folder folder;
    Child late({kBin + "mlp", "compare", kJob, "--strategies", "zero3,zero2,zero1,replicate,root_no_reshard,keep_last",
                "--blocks", "60", "--json", folder.file("out.json")});
    std::this_thread::sleep_for(std::chrono::duration<double>(wait));
    late.signal(SIGTERM);
    run = late.wait();
    const bool early_too = run.code != 0 && run.out.find("\nper step  ") == std::string::npos;
    wait *= run.code == 0 ? 0.8 : 1.3;
    if (early_too || run.code == 0) continue;
    EXPECT_EQ(run.code, 130);
    EXPECT_EQ(run.err, "");
    EXPECT_NE(run.out.find("  not compared: the run was stopped before its end\n"), std::string::npos) << run.out;
    EXPECT_NE(run.out.find("\nstopped after "), std::string::npos) << run.out;
    const json out = json_of(folder.file("out.json"));
    EXPECT_TRUE(out.at("stopped"));
    EXPECT_LT(out.at("steps_done"), out.at("steps"));
    return;
  }
  FAIL() << "no signal met the second half";
}

TEST(Reshard, ListsAndDescribesWithoutAModel) {
  const AppRun list = Child({kBin + "reshard", "plugins", "list", "--json", "-"}).wait();
  ASSERT_EQ(list.code, 0) << list.err;
  const json listed = json::parse(list.out);
  std::vector<std::string> names;
  for (const json& one : listed.at("strategies"))
    if (one.at("state") == "usable") names.push_back(one.at("name"));
  for (const char* name : tests::kShipped)
    EXPECT_NE(std::find(names.begin(), names.end(), name), names.end()) << name;

  const AppRun one = Child({kBin + "reshard", "plugins", "describe", "zero3"}).wait();
  EXPECT_EQ(one.code, 0) << one.err;
  EXPECT_NE(one.out.find("\n  [strategy.options.zero3]\n"), std::string::npos) << one.out;
  EXPECT_NE(one.out.find("\n  prefetch_forward   integer        1  0 … 8  "), std::string::npos) << one.out;
  EXPECT_TRUE(Child({kBin + "reshard", "--version"}).wait().out.starts_with("reshard "));
  EXPECT_EQ(Child({kBin + "reshard", "train"}).wait().code, 2);
}

}  // namespace
}  // namespace reshard::cli
