// The executable `reshard-probe`, which other programs of Reshard start.

#include <charconv>
#include <cstdio>

#include "conformance/trial.h"
#include "plugin/sandbox.h"

namespace {

std::string probe(const std::string& bytes, const std::vector<std::string>& arguments) {
  using namespace reshard;
  const std::string task = arguments.empty() ? "" : arguments[0];
  if (task == "load" && arguments.size() == 2) return plugin::load_in_sandbox(bytes, arguments[1]);
  if (task == "list" && arguments.size() == 1) return conformance::list_report();
  if (task == "check" && arguments.size() == 4) {
    conformance::Trial trial{bytes, arguments[1]};
    const std::string& seed = arguments[3];
    std::from_chars(seed.data(), seed.data() + seed.size(), trial.seed);
    return conformance::trial_report(arguments[2], trial);
  }
  return "probe.arguments\nunknown arguments\n";
}

}  // namespace

int main(int argc, char** argv) {
  const int status = reshard::plugin::run_in_sandbox(argc, argv, probe);
  if (status == 2)
    std::fputs(
        "reshard-probe: loads a strategy in a process of its own, for other programs of Reshard; see `reshard plugins "
        "--help`\n",
        stderr);
  return status;
}
