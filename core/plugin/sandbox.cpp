#include "plugin/sandbox.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <string_view>

#include "plugin/file.h"
#include "plugin/library.h"
#include "plugin/log.h"
#include "plugin/probe.h"
#include "plugin/strategy.h"
#include "reshard/error.h"

namespace reshard::plugin {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
#else
constexpr bool kSanitized = false;
#endif

void limit(int resource, rlim_t most) {
  const rlimit value{most, most};
  setrlimit(static_cast<__rlimit_resource>(resource), &value);
}

bool number(const char* text, int64_t& value) {
  const std::string_view view(text);
  return std::from_chars(view.data(), view.data() + view.size(), value).ec == std::errc();
}

std::string sealed_bytes() {
  struct stat status {};
  if (fstat(kProbePlugin, &status) != 0) return {};
  std::string bytes(static_cast<std::size_t>(status.st_size), '\0');
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t count = pread(kProbePlugin, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    done += static_cast<std::size_t>(count);
  }
  return bytes;
}

void write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = write(descriptor, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

}  // namespace

int run_in_sandbox(int argc, char** argv, const ProbeTask& task) {
  int64_t memory = 0, seconds = 0;
  if (argc < 4 || !number(argv[2], memory) || !number(argv[3], seconds) || fcntl(kProbeReport, F_GETFD) < 0) return 2;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_CPU, static_cast<rlim_t>(seconds));
  if (!kSanitized) limit(RLIMIT_AS, static_cast<rlim_t>(memory));
  // How a child ends is told by its signal, whatever a sanitizer or a library would make of it.
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) signal(number, SIG_DFL);
  // Out of the way of a plugin that closes or writes to whatever descriptor it finds.
  const int report = fcntl(kProbeReport, F_DUPFD_CLOEXEC, 200);
  close(kProbeReport);
  const std::vector<std::string> arguments(argv + 4, argv + argc);
  const std::string text = task(sealed_bytes(), arguments);
  write_all(report, text + "\n" + argv[1] + "\n");
  return 0;
}

std::string load_in_sandbox(const std::string& bytes, const std::string& path) {
  try {
    Strategy::load(inspect_bytes(path, bytes));
    return {};
  } catch (const Error& error) {
    return (error.id().empty() ? "load.failed" : error.id()) + "\n" + printable(error.message()) + "\n" +
           printable(error.remedy());
  }
}

}  // namespace reshard::plugin
