#include "cli/arms.h"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <optional>

#include <fmt/format.h>

#include "cli/loaded_job.h"
#include "config/override.h"
#include "reshard/error.h"
#include "reshard/text.h"

namespace reshard::cli {
namespace {

bool by_user(const Origin& origin) {
  return origin.by == Origin::By::job || origin.by == Origin::By::command_line;
}

// The plan as the strategy alone would have it; empty when that is none.
std::optional<Plan> plan_without_user(Job job, const Model& model, const StrategyChoice& choice, int optimizer_states) {
  job.strategy.units.clear();
  job.strategy.shard_over.reset();
  job.strategy.all_reduce.reset();
  try {
    return engine::plan_strategy(job, model, choice, optimizer_states).plan;
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Lines of the user's, each with the fields and units that it settled, in the order in which they are met.
class Lines {
 public:
  void add(const Origin& origin, const std::string& field, const std::string& unit) {
    auto line = std::find_if(lines_.begin(), lines_.end(), [&](const Line& l) { return l.where == who(origin); });
    if (line == lines_.end()) line = lines_.insert(lines_.end(), {who(origin), {}, {}});
    add_once(line->fields, field);
    if (!unit.empty()) add_once(line->units, unit);
  }

  std::string text() const {
    std::vector<std::string> parts;
    for (const Line& line : lines_) {
      std::string what = base::list_text(line.fields);
      if (line.units.size() > 4)
        what += fmt::format(" of {} units", line.units.size());
      else if (!line.units.empty())
        what += " of " + base::list_text(line.units);
      parts.push_back(fmt::format("{} ({})", line.where, what));
    }
    return base::list_text(parts);
  }

 private:
  struct Line {
    std::string where;
    std::vector<std::string> fields, units;
  };
  static void add_once(std::vector<std::string>& list, const std::string& item) {
    if (std::find(list.begin(), list.end(), item) == list.end()) list.push_back(item);
  }
  std::vector<Line> lines_;
};

void add_unit_lines(const UnitPlan& a, const UnitPlan& b, const UnitPlan& a_free, const UnitPlan& b_free,
                    Lines& lines) {
  for (int f = 0; f < kFields; ++f) {
    const auto field = static_cast<Field>(f);
    if (value_text(a_free.decision, field) == value_text(b_free.decision, field)) continue;
    if (by_user(a.origin(field))) lines.add(a.origin(field), name(field), a.name);
    if (by_user(b.origin(field))) lines.add(b.origin(field), name(field), b.name);
  }
}

std::string lines_text(const Plan& a, const Plan& b, const Plan& a_free, const Plan& b_free) {
  Lines lines;
  if (a_free.shards != b_free.shards) {
    if (by_user(a.shard_over_origin)) lines.add(a.shard_over_origin, "shard_over", "");
    if (by_user(b.shard_over_origin)) lines.add(b.shard_over_origin, "shard_over", "");
  }
  if (a_free.all_reduce != b_free.all_reduce) {
    if (by_user(a.all_reduce_origin)) lines.add(a.all_reduce_origin, "all_reduce", "");
    if (by_user(b.all_reduce_origin)) lines.add(b.all_reduce_origin, "all_reduce", "");
  }
  for (std::size_t u = 0; u < a.units.size(); ++u)
    if (a.units[u].owns_parameters) add_unit_lines(a.units[u], b.units[u], a_free.units[u], b_free.units[u], lines);
  return lines.text();
}

std::vector<std::string> differing_units(const Plan& a, const Plan& b) {
  std::vector<std::string> names;
  for (std::size_t u = 0; u < a.units.size(); ++u)
    if (a.units[u].decision != b.units[u].decision) names.push_back(a.units[u].name);
  return names;
}

// What decides the order in which gradients are added: where sums are cut, and what is added before what.
struct AddingOrder {
  bool micro_batches_first = false;  // a rank adds its micro-batches before ranks are added
  bool replicas_last = false;        // replicas are added after the micro-batches
  int shards = 0;                    // 0: the ranks' own tree, however they are grouped
  bool operator==(const AddingOrder&) const = default;
};

AddingOrder adding_order(const Plan& plan, Reduce reduce, int microbatches) {
  AddingOrder order;
  if (plan.ranks == 1) return order;  // micro-batches alone, one after the other
  // A group of consecutive ranks whose number is a power of two is a subtree of the ranks' tree.
  const bool subtree = plan.replicas() == 1 || std::has_single_bit(static_cast<unsigned>(plan.shards));
  order.shards = subtree ? 0 : plan.shards;
  if (microbatches == 1) return order;
  const bool late_replicas = plan.replicas() > 1 && plan.all_reduce == AllReduce::last;
  order.micro_batches_first = reduce == Reduce::last || (plan.shards == 1 && late_replicas);
  order.replicas_last = !order.micro_batches_first && late_replicas;
  if (order.replicas_last) order.shards = plan.shards;
  return order;
}

std::string difference_text(const AddingOrder& a, const AddingOrder& b, const std::string& unit) {
  if (a.micro_batches_first != b.micro_batches_first)
    return fmt::format("one reduces {} in each micro-batch, one in the last, which adds in another order", unit);
  if (a.replicas_last != b.replicas_last)
    return "one all-reduces in each micro-batch, one in the last, which adds in another order";
  return "shard groups that are no power of two cut the sums over ranks in other places";
}

}  // namespace

Arm make_arm(const Job& job, const std::string& name) {
  for (const Job::Variant& variant : job.strategy.variants)
    if (variant.name == name) return {name, {variant.plugin, variant.options, variant.where}};
  const std::string plugin = config::strategy_from_command_line(name);
  const bool path = name.find('/') != std::string::npos || name.ends_with(".so");
  return {path ? std::filesystem::path(name).stem().string() : name, {plugin, {}, "--strategies"}};
}

engine::PlannedStrategy plan_named(const std::string& who, const Job& job, const Model& model,
                                   const StrategyChoice& choice, int optimizer_states) {
  try {
    return engine::plan_strategy(job, model, choice, optimizer_states);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::plan) throw;
    throw Error(error.code(), fmt::format("{}: {}", who, error.message()), error.where(), error.remedy());
  }
}

std::string same_plan_reason(const Plan& a, const Plan& b, const Plan* a_free, const Plan* b_free) {
  if (a_free != nullptr && b_free != nullptr && a_free->hash() != b_free->hash()) {
    const std::string lines = lines_text(a, b, *a_free, *b_free);
    if (!lines.empty()) return lines;
  }
  const std::vector<std::string> differing = differing_units(a, b);
  if (!differing.empty()) return fmt::format("they differ only in {}, without parameters", base::list_text(differing));
  return "the strategies decide alike here";
}

std::vector<PlannedArm> plan_arms(const Job& job, const Model& model, const std::vector<Arm>& arms,
                                  int optimizer_states) {
  std::vector<PlannedArm> planned;
  for (const Arm& arm : arms) {
    for (const PlannedArm& other : planned)
      if (other.arm.name == arm.name)
        throw Error(ErrorCode::config, fmt::format("{} is named twice", arm.name), arm.choice.where,
                    "name each arm once");
    PlannedArm one{arm, {}, -1, ""};
    one.planned = plan_named(arm.name, job, model, arm.choice, optimizer_states);
    for (std::size_t i = 0; i < planned.size() && one.same_as < 0; ++i) {
      if (planned[i].planned.plan.hash() != one.planned.plan.hash()) continue;
      if (planned[i].planned.takes_feedback || one.planned.takes_feedback) continue;  // the same at first alone
      one.same_as = static_cast<int>(i);
      const auto mine = plan_without_user(job, model, arm.choice, optimizer_states);
      const auto theirs = plan_without_user(job, model, planned[i].arm.choice, optimizer_states);
      one.same_because = same_plan_reason(planned[i].planned.plan, one.planned.plan, theirs ? &*theirs : nullptr,
                                          mine ? &*mine : nullptr);
    }
    planned.push_back(std::move(one));
  }
  return planned;
}

Job launch_job(Job job, const std::vector<PlannedArm>& arms) {
  const PlannedArm& first = arms.front();
  job.strategy.plugin = first.arm.choice.plugin;
  job.places["strategy.plugin"] = {first.arm.choice.where, false};
  OptionValues& options = job.strategy.options[first.planned.name];
  for (const auto& [key, value] : first.arm.choice.options)
    if (std::all_of(arms.begin(), arms.end(), [&key = key, &first](const PlannedArm& arm) {
          return arm.planned.name != first.planned.name || arm.arm.choice.options.contains(key);
        }))
      options.insert_or_assign(key, value);
  return job;
}

Promise promise(const Plan& first, const Plan& plan, const Job& job) {
  if (first.hash() == plan.hash()) return {true, "the same plan"};
  if (job.mesh.reduce_order != "tree")
    return {false, fmt::format("reduce_order = \"{}\" fixes no order of adding", job.mesh.reduce_order)};
  for (std::size_t u = 0; u < plan.units.size(); ++u) {
    if (!plan.units[u].owns_parameters) continue;
    const AddingOrder theirs = adding_order(first, first.units[u].decision.reduce, job.train.microbatches);
    const AddingOrder mine = adding_order(plan, plan.units[u].decision.reduce, job.train.microbatches);
    if (theirs != mine) return {false, difference_text(theirs, mine, plan.units[u].name)};
  }
  return {true, "it reduces at the same points"};
}

}  // namespace reshard::cli
