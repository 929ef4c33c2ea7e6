// Ranks as processes of mpirun: the same bits as threads, one voice, and what the others do where one fails, dies or
// hangs.

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "reshard/text.h"
#include "tests/cli/run_app.h"
#include "tests/prompt.h"
#include "tests/shipped.h"

namespace reshard::cli {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

const std::string kMlp = std::string(RESHARD_BINARY_DIR) + "/bin/mlp";
const std::string kJob = std::string(RESHARD_SOURCE_DIR) + "/examples/mlp/job.toml";
const std::string kProgram = std::string(RESHARD_BINARY_DIR) + "/tests/ranks_program";

std::string mpirun(int ranks) {
  return "mpirun -n " + std::to_string(ranks) + " --bind-to none --oversubscribe" +
         (geteuid() == 0 ? " --allow-run-as-root " : " ");
}

struct Ran {
  int status = 0;
  std::string text;  // stdout and stderr
  double seconds = 0;
};

// Ends what takes more than a minute.
Ran run(const std::string& command) {
  Ran ran;
  const auto began = Clock::now();
  FILE* pipe = popen(("timeout 60 " + command + " 2>&1 < /dev/null").c_str(), "r");
  std::array<char, 4096> part;
  while (const std::size_t got = std::fread(part.data(), 1, part.size(), pipe)) ran.text.append(part.data(), got);
  const int status = pclose(pipe);
  ran.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  ran.seconds = std::chrono::duration<double>(Clock::now() - began).count();
  return ran;
}

int count(const std::string& text, const std::string& what) {
  int found = 0;
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += what.size()) ++found;
  return found;
}

// Where a launcher cannot start anything (no network of its own, no shared memory) there is nothing to see.
class WithMpirun : public testing::Test {
 protected:
  void SetUp() override {
    static const Ran started = run(mpirun(2) + "true");
    if (started.status != 0) GTEST_SKIP() << "mpirun cannot start a process here: " << started.text;
  }
};

class Processes : public WithMpirun, public testing::WithParamInterface<std::string> {};

TEST_P(Processes, TrainToTheBitsOfThreadsAndSpeakOnce) {
  const Folder folder;
  for (const int ranks : {1, 2, 4})
    for (const char* overlap : {"false", "true"}) {
      if (ranks == 1 && std::string(overlap) == "true") continue;
      const std::string more = " train " + kJob + " --steps 5 --strategy " + GetParam() + " --ranks " +
                               std::to_string(ranks) +
                               " --set mesh.ranks_per_node=1 --set memory.budget='1 GiB' --set mesh.overlap=" + overlap;
      const Ran threads = run(kMlp + more + " --json " + folder.file("t.json"));
      ASSERT_EQ(threads.status, 0) << threads.text;
      const Ran processes =
          run(mpirun(ranks) + kMlp + more + " --set mesh.communicator=mpi --json " + folder.file("p.json"));
      ASSERT_EQ(processes.status, 0) << processes.text;
      EXPECT_EQ(count(processes.text, "\npeak RSS of the process: "), 1) << processes.text;
      EXPECT_NE(processes.text.find("processes of mpirun (mpi) on cpu"), std::string::npos) << processes.text;
      const json t = json_of(folder.file("t.json")), p = json_of(folder.file("p.json"));
      ASSERT_EQ(p.at("steps").size(), 5U);
      for (std::size_t s = 0; s < 5; ++s)
        for (const char* key : {"loss_hex", "gradient_norm"})
          EXPECT_EQ(p["steps"][s].at(key), t["steps"][s].at(key)) << ranks << " ranks, step " << s;
      EXPECT_EQ(p.at("memory").at("measured"), t.at("memory").at("measured"));
      EXPECT_EQ(p["memory"].at("predicted"), p["memory"]["measured"]);
    }
}

using ProcessesAlone = WithMpirun;

INSTANTIATE_TEST_SUITE_P(Strategies, Processes,
                         testing::Values("zero3", "zero2", "replicate", "hybrid", "node_reshard"),
                         [](const auto& one) { return one.param; });

TEST_F(ProcessesAlone, AreStartedByAWord) {
  const Ran ran = run(kMlp + " train " + kJob + " --steps 3 --ranks 4 --processes");
  EXPECT_EQ(ran.status, 0) << ran.text;
  EXPECT_NE(ran.text.find("4 ranks, processes of mpirun (mpi) on cpu"), std::string::npos) << ran.text;
  EXPECT_NE(ran.text.find(" --ranks 4 --processes"), std::string::npos)
      << "the next thing to try is theirs, too: " << ran.text;
}

TEST_F(ProcessesAlone, AreComparedByTheFirst) {
  const Ran ran =
      run(mpirun(2) + kMlp + " compare " + kJob + " --strategies zero3,zero2 --blocks 2 --block-steps 2 --processes");
  EXPECT_EQ(ran.status, 0) << ran.text;
  EXPECT_EQ(count(ran.text, "identical losses in all"), 2) << ran.text;
}

TEST_F(ProcessesAlone, AsManyAsTheJobSays) {
  const std::string train = kMlp + " train " + kJob + " --set mesh.communicator=mpi --ranks 4";
  const Ran two = run(mpirun(2) + train), none = run(train);
  EXPECT_EQ(two.status, 2);
  EXPECT_EQ(count(two.text,
                  "mlp: --ranks: the job has 4 ranks, and mpirun has started 2 processes (start it by mpirun -n 4, or "
                  "with --processes)\n"),
            1)
      << two.text;
  EXPECT_EQ(none.status, 2);
  EXPECT_EQ(
      none.text,
      "mlp: --ranks: the job has 4 ranks, and no launcher has started this process (start it by mpirun -n 4, or with "
      "--processes)\n");
  const Ran other =
      run("env RANK=0 "
          "WORLD_SIZE=4 " +
          train);
  EXPECT_EQ(other.status, 2);
  EXPECT_NE(
      other.text.find(
          "mlp: --set mesh.communicator: the job has 4 ranks, and mpi finds 1 process (start it by mpirun -n 4)\n"),
      std::string::npos)
      << other.text;
  const Ran threads = run(mpirun(2) + kMlp + " train " + kJob + " --set mesh.ranks=0");
  EXPECT_EQ(threads.status, 2);
  EXPECT_EQ(count(threads.text,
                  "this process is one of 2 that mpirun has started, and this job's ranks are threads of one process"),
            2)
      << threads.text;  // each is a program of its own
}

TEST_F(ProcessesAlone, AModuleThatIsNotThereIsAnErrorThatSaysWhatToInstall) {
  const Ran ran =
      run("env RESHARD_MODULES=/no/such/folder " + kMlp + " train " + kJob + " --ranks 1 --set mesh.communicator=mpi");
  EXPECT_EQ(ran.status, 2);
  EXPECT_NE(
      ran.text.find("mlp: --set mesh.communicator: mesh.communicator = \"mpi\" is not in this build; tried "
                    "/no/such/folder/reshard-mpi.so (install Open MPI (apt-get install libopenmpi-dev openmpi-bin), "
                    "configure and build again, or use \"threads\")\n"),
      std::string::npos)
      << ran.text;
}

// What rank 1 does, and what the others say.
struct Ending {
  const char *way, *said;
};

class Endings : public WithMpirun, public testing::WithParamInterface<Ending> {};

TEST_P(Endings, AreToldByEveryRankAndSoon) {
  for (const int ranks : {2, 3}) {
    if (ranks == 2 && std::string(GetParam().way) == "hangs") continue;  // it takes its time
    const Ran ran = run(mpirun(ranks) + kProgram + " " + GetParam().way);
    EXPECT_NE(ran.status, 0);
    EXPECT_TRUE(base::glob_match(std::string("*") + GetParam().said + "*", ran.text)) << ran.text;
    if (std::string(GetParam().way) == "hangs") {
      EXPECT_EQ(count(ran.text, "rank 1 did not come to"), 1) << "one speaks: " << ran.text;
    }
    EXPECT_LT(ran.seconds, 2 + tests::kPrompt.count()) << "it waits for the timeout at most";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Ways, Endings,
    testing::Values(
        Ending{"throws", "rank 0: rank 0*: rank 1 failed: the disk is full (mend what ended rank 1)"},
        Ending{"leaves",
               "rank 0: rank 0*: rank 1 returned while rank ? waits for it in * (every rank must run the same steps)"},
        Ending{"hangs",
               "rank 0*: rank 1 did not come to *, collective *, within 2 s (see what rank 1 is doing, or "
               "allow more time if it only computes for long)"},
        Ending{"other_plan", "rank 0: rank 1 has strategy zero2*; rank 0 has strategy zero3*"}),
    [](const auto& one) { return one.param.way; });

// mpirun ends all processes as soon as it sees one die; it says which, and nobody is left behind.
TEST_F(ProcessesAlone, ADeadRankEndsTheRun) {
  for (const char* way : {"dies", "exits"}) {
    const Ran ran = run(mpirun(3) + kProgram + " " + way);
    EXPECT_NE(ran.status, 0) << way;
    EXPECT_LT(ran.seconds, 2 + tests::kPrompt.count()) << way;
    EXPECT_NE(run("pgrep -r R,S,D -x ranks_program").status, 0) << "nobody is left after it " << way;
  }
}

}  // namespace
}  // namespace reshard::cli
