#include "plugin/probe.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <random>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "plugin/log.h"
#include "plugin/trust.h"
#include "reshard/error.h"
#include "reshard/text.h"

// Defined by programs that are built with find_package(reshard): the probe of the package that they were built with.
extern "C" __attribute__((weak)) const char reshard_package_probe[];

namespace reshard::plugin {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostOutput = 64 << 10, kMostReport = 16 << 20;

// A descriptor of this process that no child inherits by accident. They begin above those that a child is given, so that
// putting one in its place never closes another.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int raw) : raw_(raw < 0 ? raw : fcntl(raw, F_DUPFD_CLOEXEC, 16)) {
    if (raw >= 0) ::close(raw);
  }
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept : raw_(std::exchange(other.raw_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(raw_, other.raw_);
    return *this;
  }
  int raw() const { return raw_; }
  void close() {
    if (raw_ >= 0) ::close(std::exchange(raw_, -1));
  }

 private:
  int raw_ = -1;
};

struct Pipe {
  Descriptor read, write;
  static Pipe make() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return {};
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    return {Descriptor(ends[0]), Descriptor(ends[1])};
  }
};

// What one pipe has given so far.
struct Received {
  Pipe pipe = Pipe::make();
  std::string text;
  std::size_t most;
  bool open = true;

  // Reads what there is; beyond `most` it is thrown away, so that the child is not held up.
  void receive() {
    std::array<char, 4096> part;
    for (;;) {
      const ssize_t count = ::read(pipe.read.raw(), part.data(), part.size());
      if (count < 0 && errno == EINTR) continue;
      if (count == 0) open = false;
      if (count <= 0) return;
      text.append(part.data(), std::min(static_cast<std::size_t>(count), most - text.size()));
    }
  }
};

std::string nonce() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

// What a child may know of this process's surroundings: where libraries are, and what sanitizers are told.
std::vector<std::string> child_environment() {
  std::vector<std::string> kept{"LC_ALL=C"};
  for (const char* name : {"PATH", "LD_LIBRARY_PATH", "ASAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"})
    if (const char* value = std::getenv(name)) kept.push_back(fmt::format("{}={}", name, value));
  return kept;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

class Child {
 public:
  Child(const SealedFile& plugin, const ProbeLimits& limits) : plugin_(plugin), limits_(limits) {
    output_.most = kMostOutput, report_.most = kMostReport;
  }

  ProbeResult run(const fs::path& program, const std::vector<std::string>& arguments) {
    const auto began = Clock::now();
    ProbeResult result;
    if (const int error = start(program, arguments); error != 0) {
      result.reason = fmt::format("{}: {}", program.string(), std::strerror(error));
      result.remedy = "allow this user one more process";
      return result;
    }
    wait(began + limits_.time);
    result.seconds = std::chrono::duration<double>(Clock::now() - began).count();
    result.output = output_.text;
    judge(result);
    return result;
  }

 private:
  int start(const fs::path& program, const std::vector<std::string>& arguments) {
    std::vector<std::string> texts{program.string(), nonce_, fmt::format("{}", limits_.memory_bytes),
                                   fmt::format("{}", 1 + limits_.time.count() / 1000)};
    texts.insert(texts.end(), arguments.begin(), arguments.end());
    std::vector<std::string> environment = child_environment();
    const Descriptor plugin(dup(plugin_.descriptor()));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    for (const int to : {STDOUT_FILENO, STDERR_FILENO})
      posix_spawn_file_actions_adddup2(&actions, output_.pipe.write.raw(), to);
    posix_spawn_file_actions_adddup2(&actions, plugin.raw(), kProbePlugin);
    posix_spawn_file_actions_adddup2(&actions, report_.pipe.write.raw(), kProbeReport);
    posix_spawn_file_actions_addclosefrom_np(&actions, kProbeReport + 1);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    sigset_t signals;
    sigemptyset(&signals);
    posix_spawnattr_setsigmask(&attributes, &signals);
    sigfillset(&signals);
    posix_spawnattr_setsigdefault(&attributes, &signals);
    const int error = posix_spawn(&process_, program.c_str(), &actions, &attributes, pointers(texts).data(),
                                  pointers(environment).data());
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    output_.pipe.write.close(), report_.pipe.write.close();
    return error;
  }

  // Until the child has ended or its time is over; then nothing of its process group is left.
  void wait(Clock::time_point deadline) {
    while (!ended_) {
      if (Clock::now() >= deadline) {
        hung_ = true;
        break;
      }
      std::array<pollfd, 2> waits{{{output_.open ? output_.pipe.read.raw() : -1, POLLIN, 0},
                                   {report_.open ? report_.pipe.read.raw() : -1, POLLIN, 0}}};
      if (output_.open || report_.open)
        poll(waits.data(), waits.size(), 50);
      else
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      output_.receive(), report_.receive();
      ended_ = has_ended();
    }
    // Before the child's end is collected: until then its group's number cannot be another's.
    kill(-process_, SIGKILL);
    pid_t got = -1;
    do got = waitpid(process_, &status_, 0);
    while (got < 0 && errno == EINTR);
    if (got < 0) status_ = -1;  // the program has told the system not to keep its children's ends
    output_.receive(), report_.receive();
  }

  // Without collecting it.
  bool has_ended() const {
    siginfo_t info{};
    const int result = waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOHANG | WNOWAIT);
    return result == 0 ? info.si_pid != 0 : errno != EINTR;
  }

  void judge(ProbeResult& result) const {
    const std::string last = "\n" + nonce_ + "\n";
    if (report_.text.ends_with(last) && !hung_) {
      result.end = ProbeResult::End::completed;
      result.report = report_.text.substr(0, report_.text.size() - last.size());
      result.status = status_ < 0 ? 0 : WIFSIGNALED(status_) ? -WTERMSIG(status_) : WEXITSTATUS(status_);
      result.clean = result.status == 0;
    } else if (hung_) {
      result.end = ProbeResult::End::hung;
    } else if (status_ >= 0 && WIFSIGNALED(status_)) {
      result.end = ProbeResult::End::crashed;
      result.status = WTERMSIG(status_);
    } else {
      result.end = ProbeResult::End::exited_early;
      result.status = status_ >= 0 ? WEXITSTATUS(status_) : -1;
    }
  }

  const SealedFile& plugin_;
  const ProbeLimits limits_;
  const std::string nonce_ = nonce();
  Received output_, report_;
  pid_t process_ = -1;
  int status_ = 0;
  bool ended_ = false, hung_ = false;
};

std::vector<fs::path> probe_candidates() {
  constexpr const char* kName = "reshard-probe";
  std::vector<fs::path> all;
  if (const char* named = secure_getenv("RESHARD_PROBE")) return {named};
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  if (!error)
    for (const char* below : {".", "../bin", "../libexec/reshard", "../lib/reshard"})
      all.push_back((folder / below / kName).lexically_normal());
  if (reshard_package_probe != nullptr) all.emplace_back(reshard_package_probe);
  all.emplace_back(RESHARD_BUILT_PROBE);
  all.emplace_back(RESHARD_INSTALLED_PROBE);
  return all;
}

}  // namespace

std::string ProbeResult::text(const ProbeLimits& limits) const {
  switch (end) {
    case End::completed: return "";
    case End::crashed: return fmt::format("crashed: {}", strsignal(status));
    case End::hung: return fmt::format("did not end within {:g} s", static_cast<double>(limits.time.count()) * 1e-3);
    case End::exited_early: return fmt::format("exited with {} before it had finished", status);
    case End::not_started: return fmt::format("could not be loaded in a child process first: {}", reason);
  }
  return "";
}

std::string ProbeResult::exit_text() const {
  return status < 0 ? fmt::format("crashed: {}", strsignal(-status)) : fmt::format("exited with {}", status);
}

fs::path probe_program() {
  for (const fs::path& candidate : probe_candidates()) {
    std::error_code error;
    const fs::path real = fs::canonical(candidate, error);
    if (!error && access(real.c_str(), X_OK) == 0 && !doubt_of_owner(real)) return real;
  }
  return {};
}

ProbeResult run_probe(const SealedFile& plugin, const std::vector<std::string>& arguments, const ProbeLimits& limits) {
  const fs::path program = probe_program();
  if (program.empty()) {
    std::vector<std::string> tried;
    for (const fs::path& candidate : probe_candidates()) tried.push_back(candidate.string());
    ProbeResult result;
    result.reason = fmt::format("there is no program reshard-probe; tried {}", base::list_text(tried));
    result.remedy = "install it, name it in RESHARD_PROBE, or write probe = \"never\" in [plugins]";
    return result;
  }
  return Child(plugin, limits).run(program, arguments);
}

void probe_loading(const SealedFile& plugin, const fs::path& file, const std::string& where) {
  const ProbeLimits limits;
  const ProbeResult result = run_probe(plugin, {"load", file.string()}, limits);
  const char* const remedy = "ask who made it: its constructors or its init do that";
  const auto refuse = [&](const char* id) {
    throw Error(ErrorCode::plugin, result.text(limits) + ", while it was loaded in a child process", where, remedy, id);
  };
  switch (result.end) {
    case ProbeResult::End::completed: break;
    case ProbeResult::End::crashed: refuse("probe.crashed"); break;
    case ProbeResult::End::hung: refuse("probe.hung"); break;
    case ProbeResult::End::exited_early: refuse("probe.exited"); break;
    case ProbeResult::End::not_started:
      throw Error(ErrorCode::plugin, result.text(limits), where, result.remedy, "probe.not-started");
  }
  // The child met an error of its own kind; this process says it in the same words, with the code that it came with.
  if (result.report.empty()) return;
  const std::size_t line = result.report.find('\n');
  const std::size_t second = line == std::string::npos ? line : result.report.find('\n', line + 1);
  if (second == std::string::npos)
    throw Error(ErrorCode::plugin, "its child process wrote a report that cannot be read", where, remedy, "probe.report");
  throw Error(ErrorCode::plugin, printable(result.report.substr(line + 1, second - line - 1)), where,
              printable(result.report.substr(second + 1)), printable(result.report.substr(0, line)));
}

}  // namespace reshard::plugin
