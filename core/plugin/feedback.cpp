#include "plugin/feedback.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "plugin/host.h"
#include "reshard/error.h"

namespace reshard::plugin {

static_assert(kMemoryCategories == RESHARD_MEMORY_CATEGORIES &&
              static_cast<int>(MemoryCategory::whole_parameters) == RESHARD_WHOLE_PARAMETERS &&
              static_cast<int>(MemoryCategory::activations) == RESHARD_ACTIVATIONS);

const reshard_feedback* find_feedback(Library& library, const reshard_strategy& strategy, const LogFunction& log) {
  if (strategy.get_extension == nullptr) return nullptr;
  const auto* table = static_cast<const reshard_feedback*>(library.call(
      Library::Call::get_extension, log, [&] { return strategy.get_extension(text(RESHARD_FEEDBACK_ID)); }));
  if (table == nullptr) return nullptr;
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorCode::plugin, what, library.where(), kBuildAgain, "entry.extension");
  };
  if (table->struct_size < sizeof(reshard_feedback))
    refuse(fmt::format("has a table of {} bytes for {}; it has {}", table->struct_size, RESHARD_FEEDBACK_ID,
                       sizeof(reshard_feedback)));
  if (table->summary == nullptr) refuse(fmt::format("has a table for {} without summary", RESHARD_FEEDBACK_ID));
  return table;
}

SummaryTable::SummaryTable(const StepSummary& step) : raw_{} {
  for (const UnitSummary& unit : step.units)
    units_.push_back({unit.exposed_gather_forward, unit.exposed_gather_backward, unit.exposed_reduce,
                      static_cast<uint32_t>(std::min<int64_t>(unit.gathers, std::numeric_limits<uint32_t>::max())), 0});
  raw_.struct_size = sizeof raw_;
  raw_.flags = (step.skipped ? uint32_t{RESHARD_STEP_SKIPPED} : 0) | (step.first_of_plan ? RESHARD_STEP_FIRST : 0);
  raw_.step = static_cast<uint64_t>(step.step);
  raw_.seconds = step.seconds;
  raw_.seconds_exposed = step.seconds_exposed;
  std::copy(step.peak_bytes.begin(), step.peak_bytes.end(), raw_.peak_bytes);
  raw_.units = units_.data();
  raw_.unit_count = static_cast<uint32_t>(units_.size());
  raw_.unit_size = sizeof(reshard_unit_summary);
}

}  // namespace reshard::plugin
