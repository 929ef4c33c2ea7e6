#include "config/unit_entry.h"

#include <charconv>
#include <limits>

#include "base/check.h"
#include "config/job_tables.h"
#include "config/table_rules.h"
#include "config/value.h"
#include "reshard/error.h"

namespace reshard::config {
namespace {

const std::string kUnitPath = "strategy.unit.";

[[noreturn]] void fail(const std::string& key, const std::string& must, const OptionValue& value, std::string remedy) {
  throw Error(ErrorCode::config, kUnitPath + key + " must be " + must + ", not " + described(value), value.where,
              std::move(remedy));
}

std::string word_of(const std::string& key, const OptionValue& value, std::vector<std::string> choices) {
  const std::string full = kUnitPath + key;
  return text_of({full, value.where}, {.choices = std::move(choices)}, value, "");
}

int integer_between(const std::string& key, const OptionValue& value, double min, double max) {
  const std::string full = kUnitPath + key;
  const int64_t wide = integer_of({full, value.where}, value);
  check_integer({full, value.where}, {.min = min, .max = max}, wide, 0, std::numeric_limits<int>::max());
  return static_cast<int>(wide);
}

bool looks_like_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

AfterForward after_forward_of(const std::string& key, const OptionValue& value) {
  const std::string must = "\"free\", \"keep\" or a number of ranks";
  if (const auto* truth = std::get_if<bool>(&value.value))
    fail(key, must, value, std::string("write reshard_after_forward = ") + (*truth ? "true" : "false"));
  if (std::holds_alternative<int64_t>(value.value))
    return AfterForward::shrink(integer_between(key, value, 1, kMostRanks));
  const auto* text = std::get_if<std::string>(&value.value);
  if (text == nullptr) fail(key, must, value, "");
  if (*text == "free") return AfterForward::free();
  if (*text == "keep") return AfterForward::keep();
  if (*text == "true" || *text == "false")
    fail(key, must, value, "write reshard_after_forward = " + *text + ", without quotes");
  if (looks_like_number(*text)) fail(key, must, value, "write it without quotes");
  fail(key, must, value, did_you_mean(*text, {"free", "keep"}));
}

AfterForward reshard_after_forward_of(const std::string& key, const OptionValue& value) {
  const std::string must = "true, false or a number of ranks";
  if (const auto* truth = std::get_if<bool>(&value.value)) return *truth ? AfterForward::free() : AfterForward::keep();
  if (std::holds_alternative<int64_t>(value.value))
    return AfterForward::shrink(integer_between(key, value, 1, kMostRanks));
  const auto* text = std::get_if<std::string>(&value.value);
  if (text == nullptr) fail(key, must, value, "");
  if (*text == "free" || *text == "keep") fail(key, must, value, "write after_forward = " + quoted_text(*text));
  if (*text == "true" || *text == "false" || looks_like_number(*text))
    fail(key, must, value, "write it without quotes");
  fail(key, must, value, "");
}

void set_after_forward(UnitOverride& entry, const std::string& key, const OptionValue& value) {
  if (entry.after_forward)
    throw Error(ErrorCode::config, "an entry has both after_forward and reshard_after_forward", value.where,
                "they are two spellings of one field: keep one");
  entry.after_forward = {key == "after_forward" ? after_forward_of(key, value) : reshard_after_forward_of(key, value),
                         value.where};
}

}  // namespace

const std::vector<std::string>& unit_keys() {
  static const std::vector<std::string> keys{"match",  "after_forward",    "reshard_after_forward", "after_backward",
                                             "reduce", "prefetch_forward", "prefetch_backward",     "param_dtype"};
  return keys;
}

void set_unit_key(UnitOverride& entry, const std::string& key, const OptionValue& value) {
  if (key == "match") {
    const std::string full = kUnitPath + key;
    entry.match = text_of({full, value.where}, {.not_empty = true}, value, "");
  } else if (key == "after_forward" || key == "reshard_after_forward") {
    set_after_forward(entry, key, value);
  } else if (key == "after_backward") {
    const bool free = word_of(key, value, {"free", "keep"}) == "free";
    entry.after_backward = {free ? AfterBackward::free : AfterBackward::keep, value.where};
  } else if (key == "reduce") {
    const bool each = word_of(key, value, {"each", "last"}) == "each";
    entry.reduce = {each ? Reduce::each : Reduce::last, value.where};
  } else if (key == "prefetch_forward") {
    entry.prefetch_forward = {integer_between(key, value, 0, kMaxPrefetch), value.where};
  } else if (key == "param_dtype") {
    const bool narrow = word_of(key, value, {"fp32", "bf16"}) == "bf16";
    entry.param_dtype = {narrow ? Dtype::bf16 : Dtype::fp32, value.where};
  } else {
    RESHARD_CHECK(key == "prefetch_backward", "the key is one of unit_keys()");
    entry.prefetch_backward = {integer_between(key, value, 0, kMaxPrefetch), value.where};
  }
}

AfterForward shrink_of(const std::string& option, const std::string& k) {
  int ranks = 0;
  const auto [end, status] = std::from_chars(k.data(), k.data() + k.size(), ranks);
  if (status == std::errc{} && end == k.data() + k.size() && ranks >= 1 && ranks <= kMostRanks)
    return AfterForward::shrink(ranks);
  std::string remedy = "or give the option without a value: free after forward";
  if (k == "true") remedy = "give the option without a value: free after forward";
  if (k == "false") remedy = "give --no-reshard-after-forward: keep";
  throw Error(
      ErrorCode::config,
      option + " takes a number of ranks between 1 and " + std::to_string(kMostRanks) + ", not " + quoted_text(k),
      "command line", remedy);
}

void check_unit(const UnitOverride& entry) {
  UnitOverride checked;
  set_unit_key(checked, "match", {entry.match, entry.where});
  if (entry.after_forward && entry.after_forward->value.kind == AfterForward::Kind::shrink)
    set_unit_key(checked, "after_forward", {int64_t{entry.after_forward->value.ranks}, entry.after_forward->where});
  if (entry.prefetch_forward)
    set_unit_key(checked, "prefetch_forward", {int64_t{entry.prefetch_forward->value}, entry.prefetch_forward->where});
  if (entry.prefetch_backward)
    set_unit_key(checked, "prefetch_backward",
                 {int64_t{entry.prefetch_backward->value}, entry.prefetch_backward->where});
}

}  // namespace reshard::config
