// torch_reverse as a person starts it: its help, and what it says of bad input.

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

namespace {

namespace fs = std::filesystem;

struct Ran {
  std::string text;  // stdout and stderr
  int status = 0;
};

Ran run(const std::string& arguments) {
  Ran ran;
  FILE* pipe = popen((std::string(RESHARD_BINARY_DIR) + "/bin/torch_reverse " + arguments + " 2>&1").c_str(), "r");
  std::array<char, 4096> part;
  while (const std::size_t got = std::fread(part.data(), 1, part.size(), pipe)) ran.text.append(part.data(), got);
  const int status = pclose(pipe);
  ran.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ran;
}

class TorchReverse : public testing::Test {
 protected:
  TorchReverse()
      : job_((fs::temp_directory_path() / ("torch_reverse_" + std::to_string(getpid()) + ".toml")).string()) {}
  ~TorchReverse() override { fs::remove(job_); }

  void expect_refused(const std::string& text, const std::string& error, const std::string& more = "") {
    std::ofstream(job_) << text;
    const Ran ran = run(job_ + more);
    EXPECT_EQ(ran.status, 2) << text;
    EXPECT_EQ(ran.text, "torch_reverse: " + error + "\n");
  }

  const std::string job_;
};

TEST_F(TorchReverse, HelpsAndShowsItsUsage) {
  const Ran help = run("--help");
  EXPECT_EQ(help.status, 0);
  EXPECT_EQ(help.text.find("usage: torch_reverse JOB [STRATEGY]\n\nTrains a torch::nn transformer"), 0U) << help.text;
  for (const char* misuse : {"", "a b c", "--strategy", "job.toml --what"}) {
    const Ran ran = run(misuse);
    EXPECT_EQ(ran.status, 2) << misuse;
    EXPECT_EQ(ran.text, "usage: torch_reverse JOB [STRATEGY]\n");
  }
}

TEST_F(TorchReverse, SaysWhatIsWrong) {
  const std::string head = "[strategy]\nplugin = \"zero3\"\n[optimizer]\nname = \"program\"\n";
  expect_refused(head + "[net]\nheads = 5\n",
                 job_ + ":6:1: net.heads = 5 does not divide net.width = 32 (the width is a multiple of the heads)");
  expect_refused(head + "[net]\nwidth = 33\n",
                 job_ + ":6:1: net.heads = 2 does not divide net.width = 33 (the width is a multiple of the heads)");
  expect_refused(head + "[net]\nheads = 0\n", job_ + ":6:1: net.heads must be between 1 and 64, not 0");
  expect_refused(head + "[net]\nhead = 3\n", job_ + ":6:1: unknown key \"head\" in [net] (did you mean \"heads\"?)");
  expect_refused(
      head + "[mesh]\nranks = 3\n[train]\nglobal_batch = 4\n",
      job_ + ":8:1: train.global_batch = 4 does not divide among 3 ranks and micro-batches (use a multiple of 3)");
  const Ran missing = run("none.toml");
  EXPECT_EQ(missing.status, 2);
  EXPECT_EQ(missing.text, "torch_reverse: none.toml: there is no such job file (check the path)\n");
  std::ofstream(job_) << head;
  const Ran unknown = run(job_ + " zero9");
  EXPECT_EQ(unknown.status, 2);
  EXPECT_EQ(unknown.text.find("torch_reverse: command line: there is no strategy \"zero9\"; tried "), 0U)
      << unknown.text;
}

}  // namespace
