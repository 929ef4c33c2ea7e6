#include "config/table_rules.h"

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <optional>

#include "config/document.h"
#include "config/value.h"
#include "reshard/error.h"
#include "reshard/text.h"

namespace reshard::config {
namespace {

[[noreturn]] void fail(const Site& site, const std::string& must, const std::string& got, std::string remedy = {}) {
  throw Error(ErrorCode::config, site.key + " must be " + must + ", not " + got, site.where, std::move(remedy));
}

// 8 and not 8.0 in a sentence.
std::string plain_text(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15) return std::to_string(static_cast<int64_t>(value));
  return number_text(value);
}

// What a user most likely meant: a number or a truth value in quotes, text without them, 1e3 for 1000.
std::string type_remedy(const std::string& expected, const OptionValue& value) {
  const bool wants_text = expected == "a string";
  if (const auto* text = std::get_if<std::string>(&value.value)) {
    const bool number = expected == "an integer" || expected == "a number";
    const bool truth = expected == "true or false";
    char* end = nullptr;
    const bool is_number = !text->empty() && (std::strtod(text->c_str(), &end), *end == '\0');
    errno = 0;
    if (is_number && expected == "an integer" && text->find_first_not_of("-0123456789") == std::string::npos &&
        (std::strtoll(text->c_str(), nullptr, 10), errno == ERANGE))
      return text->front() == '-' ? "the smallest integer is -9223372036854775808"
                                  : "the largest integer is 9223372036854775807";
    if ((truth && (*text == "true" || *text == "false")) || (number && is_number)) return "write it without quotes";
  }
  if (const auto* real = std::get_if<double>(&value.value);
      real != nullptr && expected == "an integer" && *real == std::floor(*real) && std::abs(*real) < 1e15)
    return "write " + std::to_string(static_cast<int64_t>(*real));
  if (wants_text && !std::holds_alternative<OptionValue::List>(value.value) &&
      !std::holds_alternative<std::string>(value.value))
    return "write it in quotes";
  return {};
}

bool within(const KeySpec& spec, double value) {
  return !(spec.min && value < *spec.min) && !(spec.max && value > *spec.max) &&
         !(spec.above && value <= *spec.above) && !(spec.below && value >= *spec.below);
}

}  // namespace

void fail_type(const Site& site, const std::string& expected, const OptionValue& value) {
  fail(site, expected, described(value), type_remedy(expected, value));
}

std::string bounds_text(const KeySpec& spec) {
  if (spec.min && spec.max) return "between " + plain_text(*spec.min) + " and " + plain_text(*spec.max);
  std::string text;
  if (spec.min) text = plain_text(*spec.min) + " or more";
  if (spec.above) text = "above " + plain_text(*spec.above);
  const std::string joint = text.empty() ? "" : " and ";
  if (spec.max) text += joint + "at most " + plain_text(*spec.max);
  if (spec.below) text += joint + "below " + plain_text(*spec.below);
  return text;
}

std::string choices_text(const std::vector<std::string>& choices) {
  std::string text;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (i > 0) text += i + 1 == choices.size() ? " or " : ", ";
    text += quoted_text(choices[i]);
  }
  return text;
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& known) {
  const std::string near = base::nearest(word, known);
  return near.empty() ? "" : "did you mean " + quoted_text(near) + "?";
}

void check_integer(const Site& site, const KeySpec& spec, int64_t value, int64_t lowest, int64_t highest) {
  if (!within(spec, static_cast<double>(value))) fail(site, bounds_text(spec), std::to_string(value));
  if (value < lowest || value > highest)
    fail(site, "between " + std::to_string(lowest) + " and " + std::to_string(highest), std::to_string(value));
}

void check_real(const Site& site, const KeySpec& spec, double value, bool each) {
  if (!std::isfinite(value)) fail(site, each ? "a list of finite numbers" : "a finite number", number_text(value));
  if (within(spec, value)) return;
  fail(site, (each ? "a list of numbers " : "") + bounds_text(spec), plain_text(value));
}

void check_text(const Site& site, const KeySpec& spec, const std::string& value) {
  if (spec.not_empty && value.empty()) throw Error(ErrorCode::config, site.key + " must not be empty", site.where);
  if (spec.choices.empty()) return;
  for (const std::string& choice : spec.choices)
    if (choice == value) return;
  fail(site, choices_text(spec.choices), quoted_text(value), did_you_mean(value, spec.choices));
}

int64_t integer_of(const Site& site, const OptionValue& value) {
  if (const auto* integer = std::get_if<int64_t>(&value.value)) return *integer;
  fail_type(site, "an integer", value);
}

double real_of(const Site& site, const OptionValue& value, const std::string& expected) {
  if (const auto* real = std::get_if<double>(&value.value)) return *real;
  if (const auto* integer = std::get_if<int64_t>(&value.value)) return static_cast<double>(*integer);
  fail_type(site, expected, value);
}

std::string text_of(const Site& site, const KeySpec& spec, const OptionValue& value, const std::string& folder) {
  const auto* text = std::get_if<std::string>(&value.value);
  if (text == nullptr) fail_type(site, spec.choices.empty() ? "a string" : choices_text(spec.choices), value);
  check_text(site, spec, *text);
  return path_text(*text, spec.path, folder);
}

int64_t bytes_of(const Site& site, const OptionValue& value) {
  if (const auto* integer = std::get_if<int64_t>(&value.value)) return *integer;
  if (const auto* text = std::get_if<std::string>(&value.value))
    if (const std::optional<int64_t> bytes = base::parse_bytes(*text)) return *bytes;
  fail_type(site, "a number of bytes, such as \"2 GiB\" or 1048576", value);
}

std::string path_text(const std::string& text, PathKind kind, const std::string& folder) {
  const bool is_path = kind == PathKind::file ||
                       (kind == PathKind::plugin && (text.find('/') != std::string::npos || text.ends_with(".so")));
  if (!is_path || text.empty()) return text;
  const std::filesystem::path path = std::filesystem::absolute(std::filesystem::path(folder) / text);
  return path.lexically_normal().string();
}

}  // namespace reshard::config
