#include "strategy/plan.h"

#include <fmt/format.h>

#include "base/fingerprint.h"

namespace reshard {

std::string who(const Origin& origin) {
  switch (origin.by) {
    case Origin::By::core_default: return "core default";
    case Origin::By::plugin: return "plugin " + origin.where;
    case Origin::By::program: return "the program";
    case Origin::By::job:
    case Origin::By::command_line: return origin.where;
  }
  return "";
}

std::string Plan::hash() const {
  base::Fingerprint fingerprint;
  fingerprint.add(std::to_string(ranks));
  fingerprint.add(std::to_string(shards));
  if (replicas() > 1) fingerprint.add(value_text(all_reduce));  // without replicas it decides nothing
  if (backward_order != BackwardOrder::micro_batch) fingerprint.add(value_text(backward_order));
  for (const UnitPlan& unit : units) {
    if (!unit.owns_parameters) continue;
    fingerprint.add(unit.name);
    for (int field = 0; field < kFields; ++field) fingerprint.add(value_text(unit.decision, static_cast<Field>(field)));
  }
  return fmt::format("{:016x}", fingerprint.value());
}

}  // namespace reshard
