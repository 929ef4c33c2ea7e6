// One target under libFuzzer: RESHARD_FUZZ_TARGET names it. Built by the preset "fuzz" alone; see run.sh.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "tests/fuzz/targets.h"

namespace {

const reshard::fuzz::Target& target() {
  const char* wanted = std::getenv("RESHARD_FUZZ_TARGET");
  for (const reshard::fuzz::Target& one : reshard::fuzz::kTargets)
    if (wanted != nullptr && std::string_view(one.name) == wanted) return one;
  std::abort();  // run.sh names one of them
}

}  // namespace

// The seeds become the corpus's first files.
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  const std::filesystem::path corpus = (*argv)[*argc - 1];
  int number = 0;
  for (const std::string& seed : target().seeds())
    std::ofstream(corpus / ("seed" + std::to_string(number++)), std::ios::binary) << seed;
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  static const reshard::fuzz::Target& one = target();
  one.run({data, size});
  return 0;
}
