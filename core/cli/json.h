#pragma once

// What the tables show, as JSON: one function per value. Keys keep the order in which they are written. A number that
// is no number is null; bytes are bytes, times are seconds.

#include <string>

#include <nlohmann/json.hpp>

#include "engine/planning.h"
#include "reshard/error.h"
#include "reshard/job.h"
#include "reshard/report.h"
#include "reshard/table.h"

namespace reshard::cli {

using Json = nlohmann::ordered_json;

Json toml_value(const std::string& text);  // a value as TOML spells it; null for an empty text

// Bits that survive: an fp64 as printf's %a writes it, "0x1.63b2p+2".
std::string hex_text(double value);
inline constexpr const char* kHexFormat = "fp64, as printf %a writes it";

Json to_json(const MemoryPeak& peak);  // {"total", "unit", "moment", "by_category": {…}}
Json to_json(const Traffic& traffic);
Json to_json(const TrafficByOp& traffic);
Json to_json(const Report& report);
Json to_json(const Error& error);

// The plan with its price: strategy, hash, traffic and peak predicted, and per unit every value with who decided it.
Json to_json(const engine::PlannedStrategy& planned);

// Every key of every table, `{"train": {"steps": 200}, …}`, with the plugins' options and the lists of [strategy];
// under "where" where each key was given; "toml" is the whole job as --print-job prints it.
Json to_json(const Job& job, const Tables& program);

}  // namespace reshard::cli
