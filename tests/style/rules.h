#pragma once

// The rules of CONTRIBUTING.md that a machine can check. Each is a pure function of a Tree, so that its own test can
// hand it a small bad tree and see that it is rejected: a rule that cannot fail would be worth nothing.

#include <span>
#include <string>
#include <vector>

#include "tests/style/source.h"

namespace reshard::style {

struct Finding {
  std::string file;
  int line = 0;
  std::string rule;
  std::string remedy;  // what is wrong and what to do, one sentence

  std::string text() const;  // "core/a.h:3: include-order: …"
};

struct Rule {
  const char* name;
  std::vector<Finding> (*check)(const Tree& tree);
};

// What may include what (include_rules.cpp).
std::vector<Finding> check_include_order(const Tree& tree);
std::vector<Finding> check_sdk_includes(const Tree& tree);
std::vector<Finding> check_example_includes(const Tree& tree);
std::vector<Finding> check_abi_home(const Tree& tree);
std::vector<Finding> check_third_party_homes(const Tree& tree);

// What code may say (word_rules.cpp).
std::vector<Finding> check_strategy_names(const Tree& tree);
std::vector<Finding> check_words(const Tree& tree);
std::vector<Finding> check_prints(const Tree& tree);
std::vector<Finding> check_backend_switches(const Tree& tree);

// How code is cut (shape_rules.cpp).
std::vector<Finding> check_mutable_globals(const Tree& tree);
std::vector<Finding> check_file_length(const Tree& tree);
std::vector<Finding> check_function_length(const Tree& tree);
std::vector<Finding> check_headers(const Tree& tree);

// The repository as a whole (file_rules.cpp).
std::vector<Finding> check_tests_listed(const Tree& tree);
std::vector<Finding> check_file_names(const Tree& tree);
std::vector<Finding> check_links(const Tree& tree);
std::vector<Finding> check_machine_paths(const Tree& tree);

// All of them, by name.
std::span<const Rule> rules();

}  // namespace reshard::style
