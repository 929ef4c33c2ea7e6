// What cannot be written is never a success, and a write that fails leaves the old file whole. Whole programs under a
// shell, because only that has a full or a closed stdout to give.

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <utility>

#include "cli/interrupt.h"
#include "cli/report_file.h"
#include "reshard/error.h"
#include "tests/cli/run_app.h"

namespace reshard::cli {
namespace {

namespace fs = std::filesystem;

const std::string kMlp = std::string(RESHARD_BINARY_DIR) + "/bin/mlp";
const std::string kMlpJob = std::string(RESHARD_SOURCE_DIR) + "/examples/mlp/job.toml";

// Exit status and stderr of a line of the shell; its stdout is the line's own matter.
AppRun run_shell(const std::string& line) {
  const Folder folder;
  const int status = std::system(("{ " + line + "\n} 2> " + folder.file("err")).c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), "", text_of(folder.file("err"))};
}

TEST(Stdout, FullOrClosedIsNeverASuccess) {
  const Folder folder;
  const std::string run = folder.file("run.json");
  ASSERT_EQ(run_shell(kMlp + " train " + kMlpJob + " --steps 2 --json " + run + " > /dev/null").code, 0);
  for (const std::string& command : std::vector<std::string>{
           "--help", "--version", "plugins --help", "train --help", "plugins list", "plugins describe zero3",
           "explain " + kMlpJob, "explain " + kMlpJob + " --strategies zero3,zero2", "train " + kMlpJob + " --print-job",
           "train " + kMlpJob + " --steps 2",
           "compare " + kMlpJob + " --strategies zero3,zero2 --blocks 1 --block-steps 2",
           "compare " + run + " " + run}) {
    expect_failure(run_shell(kMlp + " " + command + " > /dev/full"), 1,
                   "mlp: stdout: cannot write all of the output: No space left on device\n");
    expect_failure(run_shell(kMlp + " " + command + " >&-"), 1,
                   "mlp: stdout: cannot write the output: it is closed (send it to a file, to a pipe, or to "
                   "/dev/null)\n");
  }
  for (const std::string& command : {std::string("plugins list"), "explain " + kMlpJob})
    expect_failure(run_shell(kMlp + " " + command + " --json - > /dev/full"), 1,
                   "mlp: stdout: cannot write the JSON: No space left on device\n");
  // What a run has to say beside its text is there all the same, and so is an error of its own.
  EXPECT_EQ(run_shell(kMlp + " explain " + kMlpJob + " --json " + folder.file("plan.json") + " > /dev/full").code, 1);
  EXPECT_TRUE(json_of(folder.file("plan.json")).contains("plan"));
  expect_failure(run_shell(kMlp + " train none.toml > /dev/full"), 2,
                 "mlp: none.toml: there is no such job file (check the path)\n");
  EXPECT_EQ(run_shell(kMlp + " explain " + kMlpJob + " > /dev/null 2>&-").code, 0);
}

// `yes | head`, too, ends by the signal; where the parent ignores it, the write says what happened.
TEST(Stdout, APipeThatNobodyReads) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  constexpr int kEnd = 9;  // the shell takes one digit
  ASSERT_EQ(dup2(ends[1], kEnd), kEnd);
  const auto before = std::signal(SIGPIPE, SIG_DFL);  // whoever runs the tests may ignore it
  const std::string command = kMlp + " explain " + kMlpJob + " >&" + std::to_string(kEnd);
  expect_failure(run_shell(command), 128 + SIGPIPE, "");
  expect_failure(run_shell("trap '' PIPE; " + command), 1,
                 "mlp: stdout: cannot write all of the output: Broken pipe\n");
  std::signal(SIGPIPE, before);
  close(kEnd);
  close(ends[1]);
}

// Plans are made and ranks started for as long as it takes; whoever wants to stop that waits for nothing.
TEST(InterruptDeathTest, BeforeTheFirstStepEndsTheProgramAtOnce) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const auto& [number, name] : {std::pair{SIGINT, "SIGINT"}, {SIGTERM, "SIGTERM"}}) {
    const auto wait_for = [](int signal) {
      const Interrupt interrupt("toy");
      kill(getpid(), signal);
      sleep(60);
    };
    EXPECT_EXIT(wait_for(number), testing::ExitedWithCode(130),
                std::string("^toy: stopped by ") + name + " before the first step\n$");
  }
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

TEST(JsonFile, IsReplacedAsAWhole) {
  const Folder folder;
  const std::string file = folder.write("a.json", "old"), link = folder.file("link.json");
  fs::create_symlink("a.json", link);
  fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write);
  std::ifstream reader(file);  // of the old file, which stays whole for whoever has it open
  check_writable(file);
  EXPECT_EQ(text_of(file), "old");
  write_json(link, {{"new", 1}});
  EXPECT_EQ(text_of(file), "{\n  \"new\": 1\n}\n");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(reader), {}), "old");
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(fs::status(file).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  check_writable(folder.file("none.json"));
  EXPECT_EQ(names_in(folder.file("")), (std::vector<std::string>{"a.json", "link.json"}));
}

// The system ends a write at a size, as a full disk would.
TEST(JsonFile, AWriteThatFailsLeavesTheOldFile) {
  const Folder folder;
  const std::string file = folder.write("a.json", "old");
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 100;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string error = error_of([&] { write_json(file, {{"text", std::string(5000, 'x')}}); });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(error, file + ": cannot write the JSON: File too large");
  EXPECT_EQ(text_of(file), "old");
  EXPECT_EQ(names_in(folder.file("")), std::vector<std::string>{"a.json"});
}

TEST(JsonFile, APipeIsWrittenAsItStands) {
  const Folder folder;
  const std::string pipe = folder.file("pipe"), copy = folder.file("copy");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(run_shell("cat " + pipe + " > " + copy + " & " + kMlp + " plugins list --json " + pipe +
                      " > /dev/null; s=$?; wait; exit $s")
                .code,
            0);
  EXPECT_TRUE(json_of(copy).contains("strategies"));
  EXPECT_TRUE(fs::is_fifo(pipe));
  expect_failure(run_shell(kMlp + " plugins list --json /dev/full > /dev/null"), 1,
                 "mlp: /dev/full: cannot write the JSON: No space left on device\n");
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

TEST(JsonFile, IsNoneThatTheCommandReads) {
  Toy toy;
  const Folder folder;
  const std::string job = folder.write("job.toml", job_text()), run = folder.file("a.json");
  ASSERT_EQ(run_app(toy, {"train", job, "--json", run}).code, 0);
  const std::string before = text_of(run),
                    spelled =
                        folder.file("../" + fs::path(folder.file("")).parent_path().filename().string() + "/a.json");
  fs::create_symlink(run, folder.file("link.json"));
  fs::create_hard_link(run, folder.file("hard.json"));
  for (const std::string& out : {run, spelled, folder.file("link.json"), folder.file("hard.json")})
    expect_failure(
        run_app(toy, {"compare", run, run, "--json", out}), 2,
        "toy: " + out + ": --json would replace " + run + ", which this command reads (name another file)\n");
  EXPECT_EQ(text_of(run), before);
  for (const char* command : {"train", "explain"})
    expect_failure(
        run_app(toy, {command, job, "--json", job}), 2,
        "toy: " + job + ": --json would replace " + job + ", which this command reads (name another file)\n");
  expect_failure(run_app(toy, {"train", job, "--data", run, "--json", run}), 2,
                 "toy: " + run + ": --json would replace " + run + ", which this command reads (name another file)\n");
  EXPECT_EQ(text_of(job), job_text());
}

TEST(JsonFile, WhereNoneCanBe) {
  const Folder folder;
  EXPECT_EQ(error_of([&] { check_writable(folder.file("")); }),
            folder.file("") + ": cannot write the JSON: Is a directory (name a file of --json)");
  const std::string out = folder.file("out.txt");
  expect_failure(run_shell(kMlp + " explain " + kMlpJob + " --json " + out + " > " + out), 2,
                 "mlp: " + out +
                     ": --json names the file that stdout goes to (name another file, or give --json - for "
                     "the JSON alone)\n");
}

}  // namespace
}  // namespace reshard::cli
