// load.*: what the plugin's code does to the process that loads it, from the loader's first instruction to deinit.

#include <dirent.h>
#include <locale.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <set>

#include <fmt/format.h>

#include "conformance/subject.h"
#include "conformance/toys.h"
#include "plugin/floating_point.h"

extern "C" char** environ;

namespace reshard::conformance {
namespace {

// All that a plugin is asked in its life.
void live(const Trial& trial) {
  Subject subject(trial);
  Instance instance(subject);
  instance.decide(ordinary());
}

// Fails where `state`, as a text, is another one after the plugin's life.
template <class State>
void check_unchanged(const Trial& trial, const char* what, const State& state) {
  const std::string before = state();
  live(trial);
  if (const std::string after = state(); after != before) fail(fmt::format("{} was {} and is {}", what, before, after));
}

void no_output(const Trial& trial) {
  const int file = memfd_create("output", MFD_CLOEXEC);
  dup2(file, STDOUT_FILENO);
  dup2(file, STDERR_FILENO);
  live(trial);
  std::fflush(nullptr);
  char text[80];
  const ssize_t size = pread(file, text, sizeof text, 0);
  if (size > 0) fail(fmt::format("it printed \"{}\"", plugin::printable({text, static_cast<std::size_t>(size)})));
}

void threads(const Trial& trial) {
  check_unchanged(trial, "the number of threads", [] { return std::to_string(Held::now().threads); });
}

void children(const Trial& trial) {
  live(trial);
  // This process has started none itself.
  if (waitpid(-1, nullptr, WNOHANG) != -1 || errno != ECHILD) fail("it has started a process");
}

// What is in the one list and not in the other: "4 (/dev/null), 5 (/tmp/x)".
std::string missing(const std::set<std::string>& from, const std::set<std::string>& in) {
  std::string text;
  for (const std::string& one : in)
    if (!from.contains(one)) text += (text.empty() ? "" : ", ") + one;
  return text;
}

// Open descriptors and what they stand for, but the host's own copy of the plugin.
std::set<std::string> open_descriptors(const std::string& own) {
  std::set<std::string> all;
  DIR* const folder = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(folder)) {
    const int number = std::atoi(entry->d_name);
    std::error_code error;
    const std::string target = std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", number), error).string();
    if (!error && number != dirfd(folder) && target.find(own) == std::string::npos)
      all.insert(fmt::format("{} ({})", number, target));
  }
  closedir(folder);
  return all;
}

void descriptors(const Trial& trial) {
  const std::string own = "/memfd:" + std::filesystem::path(trial.path).filename().string();
  const std::set<std::string> before = open_descriptors(own);
  live(trial);
  const std::set<std::string> after = open_descriptors(own);
  if (const std::string left = missing(before, after); !left.empty()) fail("it leaves open " + left);
  if (const std::string closed = missing(after, before); !closed.empty()) fail("it has closed " + closed);
}

void handlers(const Trial& trial) {
  std::map<int, void*> before;
  const auto handler = [](int signal) {
    struct sigaction action {};
    sigaction(signal, nullptr, &action);
    return reinterpret_cast<void*>(action.sa_handler);
  };
  for (int signal = 1; signal < 65; ++signal) before[signal] = handler(signal);
  sigset_t mask{};
  const std::terminate_handler terminate = std::get_terminate();
  live(trial);
  for (int signal = 1; signal < 65; ++signal)
    if (handler(signal) != before[signal]) fail(fmt::format("it has another handler for {}", strsignal(signal)));
  if (std::get_terminate() != terminate) fail("it has another terminate handler");
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  for (int signal = 1; signal < 65; ++signal)
    if (sigismember(&mask, signal) == 1) fail(fmt::format("it blocks {}", strsignal(signal)));
}

std::set<std::string> variables() {
  std::set<std::string> all;
  for (char** one = environ; one != nullptr && *one != nullptr; ++one) all.insert(*one);
  return all;
}

void environment(const Trial& trial) {
  const std::set<std::string> before = variables();
  live(trial);
  const std::set<std::string> after = variables();
  if (const std::string set = missing(before, after); !set.empty()) fail("it has set " + set);
  if (const std::string gone = missing(after, before); !gone.empty()) fail("it has removed " + gone);
}

void folder(const Trial& trial) {
  check_unchanged(trial, "the working directory", [] { return std::filesystem::current_path().string(); });
}

void creation_mask(const Trial& trial) {
  check_unchanged(trial, "the umask", [] {
    const mode_t mask = umask(0);
    umask(mask);
    return fmt::format("{:03o}", mask);
  });
}

void locale(const Trial& trial) {
  check_unchanged(trial, "the locale", [] { return std::string(setlocale(LC_ALL, nullptr)); });
}

void floating_point(const Trial& trial) {
  const plugin::FloatingPointState before = plugin::FloatingPointState::read();
  const auto check = [&](const char* when) {
    if (const auto after = plugin::FloatingPointState::read(); !(after == before))
      fail(fmt::format("{} changed how this thread computes: {} → {}", when, before.text(), after.text()));
  };
  std::string said;
  const auto log = [&](plugin::LogLevel, std::string_view, std::string_view line) { said = line; };
  plugin::Library::open(plugin::inspect_bytes(trial.path, trial.bytes), false, log);
  if (said.find("changed how this thread computes") != std::string::npos)
    fail("it " + said.substr(said.find("changed how")));
  auto subject = std::make_unique<Subject>(trial);
  check("init");
  {
    Instance instance(*subject);
    check("create");
    instance.decide(ordinary());
    check("decide");
  }
  check("destroy");
  subject.reset();
  check("deinit");
}

void clean_exit(const Trial& trial) {
  live(trial);
  throw Verdict{Verdict::Kind::passed_if_exit_is_clean, ""};
}

void soon(const Trial& trial) {
  constexpr double kLongest = 0.1;
  const auto began = std::chrono::steady_clock::now();
  const Subject subject(trial);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  if (seconds > kLongest) warn(fmt::format("loading it and init took {:.2f} s", seconds));
}

constexpr Test kTests[] = {
    {"load.soon", "loading and init take less than 100 ms", Level::quick, Gate::no, soon},
    {"load.no_output", "nothing is printed", Level::quick, Gate::no, no_output},
    {"load.no_threads", "no thread is left running", Level::quick, Gate::no, threads},
    {"load.no_children", "no process is started", Level::quick, Gate::no, children},
    {"load.no_descriptors", "no descriptor is left open, and none closed", Level::quick, Gate::no, descriptors},
    {"load.no_handlers", "signals and std::terminate end where they did", Level::quick, Gate::no, handlers},
    {"load.no_environment", "the environment stays as it was", Level::full, Gate::no, environment},
    {"load.no_folder", "the working directory stays as it was", Level::full, Gate::no, folder},
    {"load.no_umask", "the umask stays as it was", Level::full, Gate::no, creation_mask},
    {"load.no_locale", "the locale stays as it was", Level::full, Gate::no, locale},
    {"load.floating_point", "no call changes how the thread computes", Level::quick, Gate::no, floating_point},
    {"load.clean_exit", "the process ends with exit code 0 afterwards", Level::quick, Gate::no, clean_exit},
};

}  // namespace

std::span<const Test> load_tests() {
  return kTests;
}

}  // namespace reshard::conformance
