// The executable `reshard-probe`, which other programs of Reshard start.

#include <cstdio>

#include "plugin/sandbox.h"

int main(int argc, char** argv) {
  const int status = reshard::plugin::run_in_sandbox(
      argc, argv, [](const std::string& bytes, const std::vector<std::string>& arguments) {
        return arguments.size() == 2 && arguments[0] == "load"
                   ? reshard::plugin::load_in_sandbox(bytes, arguments[1])
                   : std::string("probe.arguments\nunknown arguments\n");
      });
  if (status == 2)
    std::fputs("reshard-probe: loads a strategy in a process of its own, for other programs of Reshard; see `reshard plugins "
               "--help`\n",
               stderr);
  return status;
}
