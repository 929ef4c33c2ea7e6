#include "tests/style/rules.h"

namespace reshard::style {

std::string Finding::text() const {
  return file + ":" + std::to_string(line) + ": " + rule + ": " + remedy;
}

std::span<const Rule> rules() {
  static constexpr Rule all[] = {
      {"include-order", check_include_order},
      {"sdk-includes", check_sdk_includes},
      {"example-includes", check_example_includes},
      {"abi-home", check_abi_home},
      {"third-party-home", check_third_party_homes},
      {"strategy-name", check_strategy_names},
      {"words", check_words},
      {"prints", check_prints},
      {"backend-switch", check_backend_switches},
      {"mutable-global", check_mutable_globals},
      {"file-length", check_file_length},
      {"function-length", check_function_length},
      {"header", check_headers},
      {"test-listed", check_tests_listed},
      {"file-name", check_file_names},
      {"dead-link", check_links},
      {"machine-path", check_machine_paths},
  };
  return all;
}

}  // namespace reshard::style
