// Plugins whose code does to its process what it likes: the child process takes it, this one lives and says what it was.

#include "plugin/probe.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "plugin/strategy.h"
#include "tests/plugin/files.h"

namespace reshard::plugin {
namespace {

using tests::broken;

#ifdef RESHARD_SANITIZED
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

std::string loading(const std::string& name) {
  std::string text = tests::error_text([&] { Strategy::load(broken(name)); });
  const std::string folder = std::string(RESHARD_BINARY_DIR) + "/tests/misuse/";
  for (std::size_t at; (at = text.find(folder)) != std::string::npos;) text.replace(at, folder.size(), "@");
  return text;
}

std::string crashed(const std::string& name, int signal) {
  return "plugin: plugin @" + name + ".so (" + name + " 1.0.0): crashed: " + strsignal(signal) +
         ", while it was loaded in a child process (ask who made it: its constructors or its init do that) [probe.crashed]";
}

ProbeResult probe(const std::string& name, std::chrono::milliseconds time) {
  const SealedFile file(name, tests::read_bytes(broken(name)));
  ProbeLimits limits;
  limits.time = time;
  return run_probe(file, {"load", broken(name)}, limits);
}

TEST(Probe, TellsHowAChildEnded) {
  EXPECT_EQ(loading("crashes"), crashed("crashes", SIGSEGV));
  EXPECT_EQ(loading("aborts"), crashed("aborts", SIGABRT));
  EXPECT_EQ(loading("init_crashes"), crashed("init_crashes", SIGABRT));
  // The status is the plugin's own 0, but where a sanitizer has something to say of a process that ends while it loads.
  const std::string exits = loading("exits"), status = kSanitized ? exits.substr(52, exits.find(' ', 52) - 52) : "0";
  EXPECT_EQ(exits, "plugin: plugin @exits.so (exits 1.0.0): exited with " + status +
                       " before it had finished, while it was loaded in a child process (ask who made it: its constructors or its init do that) "
                       "[probe.exited]");
  const ProbeResult hung = probe("hangs", std::chrono::milliseconds(300));
  EXPECT_EQ(hung.end, ProbeResult::End::hung);
  ProbeLimits limits;
  limits.time = std::chrono::milliseconds(300);
  EXPECT_EQ(hung.text(limits), "did not end within 0.3 s");
}

TEST(Probe, WithoutItsProgramNothingIsLoadedUnlessTheJobSaysSo) {
  ASSERT_EQ(setenv("RESHARD_PROBE", "/no/such/probe", 1), 0);
  EXPECT_EQ(loading("talks"),
            "plugin: plugin @talks.so (talks 1.0.0): could not be loaded in a child process first: there is no program "
            "reshard-probe; tried /no/such/probe (install it, name it in RESHARD_PROBE, or write probe = \"never\" in "
            "[plugins]) [probe.not-started]");
  Job::Plugins rules;
  rules.probe = "never";
  EXPECT_EQ(tests::error_text([&] { Strategy::load(broken("talks"), {}, "", rules); }), "no error");
  unsetenv("RESHARD_PROBE");
}

// What a plugin does to descriptors, to stdout or by leaving a process behind neither holds the probe up nor spoils its
// report.
TEST(Probe, ItsReportIsOutOfThePluginsReach) {
  for (const char* name : {"closes_all", "prints_much", "leaves_a_child"}) {
    const ProbeResult result = probe(name, std::chrono::seconds(60));
    EXPECT_EQ(result.end, ProbeResult::End::completed) << name << ": " << result.text({});
    EXPECT_EQ(result.report, "") << name;
    EXPECT_LT(result.seconds, 30) << name;
    EXPECT_LE(result.output.size(), std::size_t{64} << 10) << name;
  }
}

// Whoever has asked not to be bothered with its children gets the same answers.
TEST(Probe, WorksWhereTheProgramIgnoresItsChildren) {
  struct sigaction ignore {}, before {};
  ignore.sa_handler = SIG_IGN;
  ASSERT_EQ(sigaction(SIGCHLD, &ignore, &before), 0);
  EXPECT_EQ(probe("closes_all", std::chrono::seconds(60)).end, ProbeResult::End::completed);
  EXPECT_NE(probe("exits", std::chrono::seconds(60)).end, ProbeResult::End::completed);
  sigaction(SIGCHLD, &before, nullptr);
}

// A file replaced while the process runs changes nothing for who has it loaded, and the next load is the new file.
TEST(Probe, TheNextLoadOfAReplacedFileIsTheNewOne) {
  const tests::TemporaryFolder folder;
  const std::string bytes = tests::read_bytes(tests::shipped("zero3"));
  const std::string path = folder.write("zero3.so", bytes);
  const Strategy first = Strategy::load(path);
  std::string other = bytes;
  tests::replace_bytes(other, "1.0.0", "1.0.1");
  std::filesystem::remove(path);
  folder.write("zero3.so", other);
  const Strategy second = Strategy::load(path);
  EXPECT_EQ(first.info().version, "1.0.0");
  EXPECT_EQ(second.info().version, "1.0.1");
  EXPECT_NE(first.info().sha256, second.info().sha256);
  EXPECT_EQ(first.info().sha256.size(), 64U);
}

// One byte of the program headers: whatever the loader does with it, this process lives. About one in ten would have
// crashed it.
TEST(Probe, AFlippedByteInTheProgramHeadersNeverCrashesTheHost) {
  const tests::TemporaryFolder folder;
  const std::string good = tests::read_bytes(tests::shipped("zero3"));
  int refused = 0;
  for (std::size_t i = 0; i < 60; ++i) {
    std::string bytes = good;
    const std::size_t at = 64 + (i * 37) % (56 * 9);
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << (i % 8)));
    const std::string path = folder.write(std::to_string(i) + "/zero3.so", bytes);
    if (tests::error_text([&] { Strategy::load(path); }) != "no error") ++refused;
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace reshard::plugin
