#pragma once

// A comparison as tables and as JSON. Pure functions.

#include <cstdint>
#include <string>

#include "cli/json.h"
#include "cli/output.h"
#include "reshard/compare.h"

namespace reshard::cli {

// What rates are counted in: how many a step has, and of what; 0 = no rates.
struct Samples {
  int64_t per_step = 0;
  std::string unit;
};

std::string costs_text(const Comparison& comparison, const Samples& samples, const Style& style);
std::string peaks_text(const Comparison& comparison, const Style& style);
std::string bits_text(const Comparison& comparison, const Style& style);
std::string same_plans_text(const Comparison& comparison);
std::string warnings_text(const Comparison& comparison, const Style& style);

// "0.96 (0.91 … 1.02)".
std::string ratio_text(double ratio, double low, double high);

Json to_json(const Comparison& comparison, const Samples& samples);

}  // namespace reshard::cli
