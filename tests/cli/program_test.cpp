// Whole programs as child processes: the example and `reshard`, their exit codes, and how a signal ends a run.

#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "tests/cli/run_app.h"

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

TEST(Mlp, SaysWhatIsWrongAtOnce) {
  struct Case {
    std::vector<std::string> arguments;
    int code;
    std::string err;  // the beginning
  };
  const std::vector<Case> cases{
      {{"train", "none.toml"}, 2, "mlp: none.toml: there is no such job file (check the path)\n"},
      {{"train", kJob, "--strategy", "zero9"},
       1,
       "mlp: --strategy: there is no strategy \"zero9\"; tried " + std::string(RESHARD_BINARY_DIR)},
      {{"train", kJob, "--strategy", RESHARD_SOURCE_DIR "/LICENSE"}, 1, "mlp: "},
      {{"train", kJob, "--set", "memory.budget=1 KiB"}, 1, "mlp: --set memory.budget: strategy zero3 needs "},
      {{"train", kJob, "--set", "model.deep=1"}, 2, "mlp: --set model.deep: unknown key \"deep\" in [model]"},
      {{"train", kJob, "--ranks", "5"},
       2,
       "mlp: " + kJob + ":12:1: train.global_batch = 64 does not divide among 5 ranks"},
      {{"explain", kJob, "--unit", "nobody:reduce=each"}, 2, "mlp: --unit nobody:reduce: no unit matches \"nobody\" ("},
      {{"train", kJob, "--set", "optimizer.lr=1e30"}, 1, "mlp: the loss is "},
      {{}, 2, "mlp: command line: no command is given ("},
  };
  for (const Case& one : cases) {
    std::vector<std::string> arguments{kBin + "mlp"};
    arguments.insert(arguments.end(), one.arguments.begin(), one.arguments.end());
    Child child(arguments);
    const AppRun run = child.wait();
    EXPECT_EQ(run.code, one.code) << run.err;
    EXPECT_TRUE(run.err.starts_with(one.err)) << run.err;
    EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
    EXPECT_LT(child.cpu_seconds, 1.0) << one.err;    // its own work; the machine may be busy
    EXPECT_LT(child.wall_seconds, 20.0) << one.err;  // no hang
  }
}

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
    ASSERT_TRUE(child.has_printed("\n      1    ")) << child.out();
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

TEST(Mlp, ASignalEndsAComparison) {
  Child child({kBin + "mlp", "compare", kJob, "--strategies", "zero3,zero2", "--blocks", "1000000"});
  ASSERT_TRUE(child.has_printed("in turns on one training state"));
  child.signal(SIGINT);
  const AppRun run = child.wait();
  EXPECT_EQ(run.code, 130);
  EXPECT_TRUE(run.err.starts_with("mlp: stopped after ")) << run.err;
}

TEST(Reshard, ListsAndDescribesWithoutAModel) {
  const AppRun list = Child({kBin + "reshard", "plugins", "list", "--json", "-"}).wait();
  ASSERT_EQ(list.code, 0) << list.err;
  const json listed = json::parse(list.out);
  std::vector<std::string> names;
  for (const json& one : listed.at("strategies"))
    if (one.at("state") == "usable") names.push_back(one.at("name"));
  for (const char* name : {"replicate", "root_no_reshard", "zero1", "zero2", "zero3"})
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
