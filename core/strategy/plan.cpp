#include "strategy/plan.h"

#include <string_view>

#include <fmt/format.h>

namespace reshard {
namespace {

// FNV-1a over a canonical text: enough to tell plans apart, equal on every machine.
class Hasher {
 public:
  void add(std::string_view text) {
    for (const char c : text) hash_ = (hash_ ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
    hash_ = (hash_ ^ 0xffU) * 0x100000001b3ULL;  // ends the text: "ab","c" differs from "a","bc"
  }
  uint64_t value() const { return hash_; }

 private:
  uint64_t hash_ = 0xcbf29ce484222325ULL;
};

}  // namespace

std::string who(const Origin& origin) {
  switch (origin.by) {
    case Origin::By::core_default: return "core default";
    case Origin::By::plugin: return "plugin " + origin.where;
    case Origin::By::job:
    case Origin::By::command_line: return origin.where;
  }
  return "";
}

std::string Plan::hash() const {
  Hasher hasher;
  hasher.add(std::to_string(ranks));
  hasher.add(std::to_string(shards));
  if (replicas() > 1) hasher.add(value_text(all_reduce));  // without replicas it decides nothing
  for (const UnitPlan& unit : units) {
    if (!unit.owns_parameters) continue;
    hasher.add(unit.name);
    for (int field = 0; field < kFields; ++field) hasher.add(value_text(unit.decision, static_cast<Field>(field)));
  }
  return fmt::format("{:016x}", hasher.value());
}

}  // namespace reshard
