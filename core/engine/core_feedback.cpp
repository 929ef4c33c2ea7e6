// What a strategy that listens is told of a step, and what becomes of its wish to decide anew. All ranks tell theirs
// the same, hear the same wish and adopt the same plan, or none goes on.

#include <algorithm>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "engine/core.h"
#include "reshard/error.h"
#include "reshard/text.h"

namespace reshard::engine {
namespace {

constexpr comm::Tag kMeasured{.unit_name = "what the step showed"};
constexpr comm::Tag kAsked{.unit_name = "whether to decide anew"};

double to_seconds(int64_t ns) {
  return static_cast<double>(ns) * 1e-9;
}

// One rank's numbers, in a row of integers: its times, its peak by category, then three times per unit.
enum Place { kSeconds, kExposed, kPeak, kUnits = kPeak + kMemoryCategories, kPerUnit = 3 };

int64_t peak_of(std::span<const int64_t> row) {
  int64_t sum = 0;
  for (const int64_t bytes : row.subspan(kPeak, kMemoryCategories)) sum += bytes;
  return sum;
}

bool keeps_whole(const UnitPlan& unit) {
  return unit.owns_parameters && (unit.decision.after_forward.kind != AfterForward::Kind::free ||
                                  unit.decision.after_backward == AfterBackward::keep);
}

int units_kept(const Plan& plan) {
  return static_cast<int>(std::count_if(plan.units.begin(), plan.units.end(), keeps_whole));
}

// "h.1: after_forward = keep: REASON" for each unit whose decision is another now.
std::vector<std::string> changes(const Plan& before, const Plan& now) {
  std::vector<std::string> lines;
  for (std::size_t u = 0; u < now.units.size(); ++u) {
    const UnitPlan &was = before.units[u], &is = now.units[u];
    if (!is.owns_parameters || was.decision == is.decision) continue;
    std::vector<std::string> fields;
    std::string reason;
    for (int f = 0; f < kFields; ++f) {
      const auto field = static_cast<Field>(f);
      if (value_text(was.decision, field) == value_text(is.decision, field)) continue;
      fields.push_back(fmt::format("{} = {}", name(field), value_text(is.decision, field)));
      if (reason.empty()) reason = is.origin(field).reason;
    }
    lines.push_back(fmt::format("{}: {}{}{}", is.name, base::list_text(fields), reason.empty() ? "" : ": ", reason));
  }
  return lines;
}

bool adds_alike(const Plan& one, const Plan& other) {
  bool alike = one.shards == other.shards && one.all_reduce == other.all_reduce;
  for (std::size_t u = 0; u < one.units.size(); ++u)
    alike = alike && (!one.units[u].owns_parameters || one.units[u].decision.reduce == other.units[u].decision.reduce);
  return alike;
}

}  // namespace

void Core::tell_strategy() {
  between_steps([&] {
    const bool anew = deciding_->tell(summarise());
    check_asked(anew);
    if (anew) decide_anew();
  });
}

StepSummary Core::summarise() {
  const std::vector<UnitExposed>& now = executor_->meter().by_unit();
  std::vector<int64_t> mine(kUnits + kPerUnit * now.size());
  mine[kSeconds] = static_cast<int64_t>(step_.seconds * 1e9);
  mine[kExposed] = executor_->meter().exposed_ns() - step_exposed_ns_;
  for (int c = 0; c < kMemoryCategories; ++c)
    mine[static_cast<std::size_t>(kPeak + c)] = pool_.ledger().peak()[static_cast<MemoryCategory>(c)];
  for (std::size_t u = 0; u < now.size(); ++u) {
    int64_t* unit = mine.data() + kUnits + kPerUnit * u;
    unit[0] = now[u].gather_forward_ns - units_began_[u].gather_forward_ns;
    unit[1] = now[u].gather_backward_ns - units_began_[u].gather_backward_ns;
    unit[2] = now[u].reduce_ns - units_began_[u].reduce_ns;
  }
  std::vector<int64_t> all(mine.size() * static_cast<std::size_t>(rank_.count()));
  rank_.communicator().exchange(mine.data(), mine.size() * sizeof(int64_t), all.data(), kMeasured);

  std::vector<int64_t> largest = mine;
  for (std::size_t r = 0; r < static_cast<std::size_t>(rank_.count()); ++r) {
    const std::span<const int64_t> row(all.data() + r * mine.size(), mine.size());
    for (std::size_t i = 0; i < row.size(); ++i) {
      const bool peak = i >= kPeak && i < kUnits;  // which is one rank's as a whole
      if (!peak && row[i] > largest[i]) largest[i] = row[i];
    }
    if (r == 0 || peak_of(row) > peak_of(largest))
      std::copy_n(row.begin() + kPeak, kMemoryCategories, largest.begin() + kPeak);
  }
  StepSummary summary;
  summary.step = step_.step;
  summary.skipped = step_.skipped || step_.skipped_by_program;
  summary.first_of_plan = steps_of_plan_ == 0;
  summary.seconds = to_seconds(largest[kSeconds]);
  summary.seconds_exposed = to_seconds(largest[kExposed]);
  std::copy_n(largest.begin() + kPeak, kMemoryCategories, summary.peak_bytes.begin());
  for (std::size_t u = 0; u < now.size(); ++u) {
    const int64_t* unit = largest.data() + kUnits + kPerUnit * u;
    summary.units.push_back(
        {to_seconds(unit[0]), to_seconds(unit[1]), to_seconds(unit[2]), now[u].gathers - units_began_[u].gathers});
  }
  return summary;
}

void Core::check_asked(bool anew) {
  std::vector<int64_t> all(static_cast<std::size_t>(rank_.count()));
  rank_.communicator().exchange(int64_t{anew}, std::span<int64_t>(all), kAsked);
  for (std::size_t r = 1; r < all.size(); ++r)
    if (all[r] != all[0])
      throw Error(
          ErrorCode::plan,
          fmt::format("strategy {} asks to decide anew after {} {} on rank {}, and does not on rank {}", planned_.name,
                      steps_, steps_ == 1 ? "step" : "steps", all[r] != 0 ? r : 0, all[r] != 0 ? 0 : r),
          "", "it must go by its options, the problem and what it is told alone");
}

void Core::decide_anew() {
  const int64_t began = now_ns();
  PlannedStrategy planned = deciding_->decide();
  check_budget(job_, planned);
  compare_plans(planned);
  if (planned.plan.hash() == planned_.plan.hash()) return;
  Replan replan;
  replan.steps_done = steps_;
  replan.changes = changes(planned_.plan, planned.plan);
  replan.units_kept_before = units_kept(planned_.plan);
  replan.units_kept = units_kept(planned.plan);
  replan.adds_alike = adds_alike(planned_.plan, planned.plan);
  replan.predicted = planned.peak;
  replan.measured_before = report().measured;
  replan.log = planned.log;
  const SwitchResult result = take_up(std::move(planned));
  replan.plan_hash = result.plan_hash;
  replan.relaid = result.relaid;
  replan.seconds = to_seconds(now_ns() - began);
  replans_.push_back(std::move(replan));
  step_.decided_anew = true;
  steps_of_plan_ = -1;  // the step that ends here was not under this plan
}

}  // namespace reshard::engine
