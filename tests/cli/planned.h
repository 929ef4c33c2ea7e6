#pragma once

// A plan made by hand, for the tests of printed parts.

#include "engine/planning.h"

namespace reshard::cli {

inline Origin by_plugin(const std::string& reason = "whole only while it is used") {
  return {Origin::By::plugin, "north", reason, ""};
}

// A root that owns nothing and `blocks` blocks of 1 KiB on `ranks` ranks; everything is freed, as plugin north says.
inline engine::PlannedStrategy planned_strategy(int blocks, int ranks = 2) {
  engine::PlannedStrategy planned;
  planned.name = "north";
  planned.version = "1.2.0";
  planned.file = "/opt/north.so";
  planned.summary = "frees everything";
  planned.plan.ranks = planned.plan.shards = ranks;
  const auto add = [&](const std::string& name, bool owns) {
    UnitPlan unit;
    unit.name = name;
    unit.owns_parameters = owns;
    unit.origins.fill(by_plugin());
    planned.plan.units.push_back(std::move(unit));
    planned.units.push_back({owns ? 1024 : 0, owns ? 1024 / ranks : 0, 0});
  };
  add("root", false);
  for (int b = 0; b < blocks; ++b) add("h." + std::to_string(b), true);
  planned.traffic.gather = {4, 4096, 0, 0};
  planned.traffic.reduce = {2, 1024, 0, 0};
  planned.peak.bytes = {1024, 2048, 512, 0, 2048, 256};
  planned.peak.unit = "h.1";
  planned.peak.moment = "before backward, micro-batch 1";
  return planned;
}

}  // namespace reshard::cli
