#pragma once

// What a user says about units, over any plugin: one entry of `[[strategy.unit]]`, or one option of the command line.
// Who wins where several entries match a unit is decided in resolve.

#include <optional>
#include <string>

#include "reshard/decision.h"
#include "reshard/dtype.h"

namespace reshard {

// A value that a user gave, and where.
template <class T>
struct Given {
  T value{};
  std::string where{};  // "job.toml:14:1", "--unit h.3:reduce", "--no-reshard-after-forward"
  // Command line only: what it replaced of the job file, with its place: `"free" (job.toml:14:1)`. Of a unit's fields
  // this stays empty: which entry was beaten differs from unit to unit, and resolve sees it.
  std::optional<std::string> replaced{};
  bool command_line = false;  // of values for the whole plan; a unit's field has its entry's

  bool operator==(const Given& other) const { return value == other.value; }  // the place is no part of the value
};

struct UnitOverride {
  std::string match;                                   // a unit's name, a glob, or "root"
  std::string where;                                   // of the entry
  std::optional<Given<AfterForward>> after_forward{};  // also from reshard_after_forward = true | false | k
  std::optional<Given<AfterBackward>> after_backward{};
  std::optional<Given<Reduce>> reduce{};
  std::optional<Given<int>> prefetch_forward{}, prefetch_backward{};  // 0 … kMaxPrefetch
  std::optional<Given<Dtype>> param_dtype{};                          // over [precision] and the program's word
  bool command_line = false;  // beats every entry of the job file, whatever its match

  bool operator==(const UnitOverride& other) const {
    return match == other.match && after_forward == other.after_forward && after_backward == other.after_backward &&
           reduce == other.reduce && prefetch_forward == other.prefetch_forward &&
           prefetch_backward == other.prefetch_backward && param_dtype == other.param_dtype &&
           command_line == other.command_line;
  }
};

}  // namespace reshard
