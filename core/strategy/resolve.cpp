#include "strategy/resolve.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/math.h"
#include "reshard/error.h"
#include "reshard/text.h"

namespace reshard {
namespace {

bool names(const UnitOverride& entry, const std::string& unit, bool root) {
  return entry.match == unit || (root && entry.match == "root");
}

bool matches(const UnitOverride& entry, const std::string& unit, bool root) {
  return names(entry, unit, root) || base::glob_match(entry.match, unit) ||
         (root && base::glob_match(entry.match, "root"));
}

void check_matches(const Model& model, std::span<const UnitOverride> entries) {
  std::vector<std::string> known{"root"};
  for (const UnitSpec& unit : model.units()) known.push_back(unit.name);
  for (const UnitOverride& entry : entries) {
    bool found = false;
    for (int u = 0; u < model.unit_count(); ++u) found = found || matches(entry, model.name({u}), u == 0);
    if (found) continue;
    const std::string near = base::nearest(entry.match, known);
    throw Error(ErrorCode::config, fmt::format("no unit matches \"{}\"", entry.match), entry.where,
                near.empty() ? "the model's units: " + base::list_text(std::span<const std::string>(known).subspan(
                                                           1, std::min<std::size_t>(known.size() - 1, 12)))
                             : fmt::format("did you mean \"{}\"?", near));
  }
}

// A field's value as one voice after the other overrides it.
template <typename T>
class Voices {
 public:
  explicit Voices(T core_default) : value_(core_default) {}

  void plugin(const std::optional<T>& said, const std::string& plugin, const std::string& reason) {
    if (said) take(*said, {Origin::By::plugin, plugin, reason, ""});
  }
  void program(const std::optional<T>& said) {
    if (said) take(*said, {Origin::By::program, "", "", beaten()});
  }
  void user(const Given<T>& said, Origin::By by) {
    Origin origin{by, said.where, "", beaten()};
    if (said.replaced) origin.replaced = *said.replaced;
    take(said.value, std::move(origin));
  }
  const T& value() const { return value_; }
  const Origin& origin() const { return origin_; }

 private:
  std::string beaten() const {
    return origin_.by == Origin::By::core_default ? "" : quoted(value_) + " (" + who(origin_) + ")";
  }
  static std::string quoted(int value) { return std::to_string(value); }
  static std::string quoted(Dtype value) { return std::string("\"") + name(value) + "\""; }
  template <typename V>
  static std::string quoted(V value) {
    return std::string("\"") + value_text(value) + "\"";
  }
  void take(T value, Origin origin) {
    value_ = value;
    origin_ = std::move(origin);
  }
  T value_;
  Origin origin_;
};

// The winning entry of one side for one field.
template <typename T>
const Given<T>* winner(std::span<const UnitOverride> entries, bool command_line, const std::string& unit, bool root,
                       std::optional<Given<T>> UnitOverride::*field) {
  const Given<T>* best = nullptr;
  bool best_named = false;
  for (const UnitOverride& entry : entries) {
    if (entry.command_line != command_line || !(entry.*field) || !matches(entry, unit, root)) continue;
    const bool named = names(entry, unit, root);
    if (best != nullptr && best_named && !named) continue;
    best = &*(entry.*field);
    best_named = named;
  }
  return best;
}

template <typename T>
std::pair<T, Origin> decide(T core_default, const std::optional<T>& answer, const std::string& plugin,
                            const std::string& reason, std::span<const UnitOverride> entries, const std::string& unit,
                            bool root, std::optional<Given<T>> UnitOverride::*field) {
  Voices<T> voices(core_default);
  voices.plugin(answer, plugin, reason);
  if (const auto* job = winner(entries, false, unit, root, field)) voices.user(*job, Origin::By::job);
  if (const auto* line = winner(entries, true, unit, root, field)) voices.user(*line, Origin::By::command_line);
  return {voices.value(), voices.origin()};
}

template <typename T>
std::pair<T, Origin> decide(T core_default, const std::optional<T>& answer, const std::string& plugin,
                            const std::string& reason, const std::optional<Given<T>>& user) {
  Voices<T> voices(core_default);
  voices.plugin(answer, plugin, reason);
  if (user) voices.user(*user, user->command_line ? Origin::By::command_line : Origin::By::job);
  return {voices.value(), voices.origin()};
}

int resolve_shards(int shard_over, int ranks, const Origin& origin) {
  if (shard_over == 0) return ranks;
  if (shard_over < 0 || ranks % shard_over != 0)
    throw Error(ErrorCode::plan, fmt::format("shard_over = {} does not divide the {} ranks", shard_over, ranks),
                who(origin), fmt::format("use 0 (all ranks) or one of {}", base::list_text(base::divisors(ranks))));
  return shard_over;
}

// k = 1 keeps, k = the whole group frees; any other k must divide the group.
AfterForward resolve_shrink(AfterForward value, int shards, const std::string& unit, const Origin& origin) {
  if (value.kind != AfterForward::Kind::shrink) return value;
  if (value.ranks == 1) return AfterForward::keep();
  if (value.ranks == shards) return AfterForward::free();
  if (value.ranks < 1 || shards % value.ranks != 0)
    throw Error(ErrorCode::plan,
                fmt::format("after_forward = {} of unit \"{}\" does not divide its shard group of {} {}", value.ranks,
                            unit, shards, shards == 1 ? "rank" : "ranks"),
                who(origin),
                shards == 1
                    ? "use \"free\" or \"keep\""
                    : fmt::format("use \"free\", \"keep\" or one of {}", base::list_text(base::divisors(shards))));
  return value;
}

bool said_by_user(const Origin& origin) {
  return origin.by == Origin::By::job || origin.by == Origin::By::command_line;
}

void add_note(Plan& plan, std::string note) {
  if (std::find(plan.notes.begin(), plan.notes.end(), note) == plan.notes.end()) plan.notes.push_back(std::move(note));
}

// What a user said and what decides nothing is said to do so: nobody is overridden in silence.
void add_idle_notes(const UnitPlan& unit, Plan& plan) {
  if (unit.owns_parameters) return;
  if (unit.own_dtype && said_by_user(unit.dtype_origin))
    add_note(plan, fmt::format("{}: param_dtype = {} of {} changes nothing: the unit owns no parameters.",
                               who(unit.dtype_origin), name(unit.dtype), unit.name));
  for (int f = 0; f < kFields; ++f) {
    const auto field = static_cast<Field>(f);
    if (said_by_user(unit.origin(field)))
      add_note(plan, fmt::format("{}: {} = {} of {} changes nothing: the unit owns no parameters.",
                                 who(unit.origin(field)), name(field), value_text(unit.decision, field), unit.name));
  }
}

void add_notes(const Model& model, Plan& plan) {
  if (!plan.units.front().owns_parameters)
    add_note(plan, fmt::format("{} owns no parameters: what is decided for it changes nothing.", model.name(kRoot)));
  for (const UnitPlan& unit : plan.units) add_idle_notes(unit, plan);
  if (plan.replicas() == 1 && said_by_user(plan.all_reduce_origin))
    add_note(plan, fmt::format("{}: all_reduce = {} changes nothing: there are no replicas.",
                               who(plan.all_reduce_origin), value_text(plan.all_reduce)));
  if (plan.backward_order != BackwardOrder::micro_batch)
    add_note(plan, fmt::format("{}: backward_order = {} gathers what FSDP2 does: a first unit's backward may gather "
                               "the last unit of an earlier pass, which nobody uses; the report counts those.",
                               who(plan.backward_order_origin), value_text(plan.backward_order)));
  if (plan.shards == 1)
    add_note(plan, "A shard group of one rank holds everything: gather, free, shrink and reduce make no op.");
}

}  // namespace

UnitDtype resolve_dtype(const Model& model, int unit, const UserWord& user) {
  const std::optional<Dtype>& program = model.spec({unit}).param_dtype;
  const auto said = [&](bool command_line) {
    return winner(user.units, command_line, model.name({unit}), unit == 0, &UnitOverride::param_dtype);
  };
  const Given<Dtype> *job = said(false), *line = said(true);
  Voices<Dtype> voices(Dtype::fp32);
  const auto& all = user.param_dtype;
  if (all) voices.user(*all, all->command_line ? Origin::By::command_line : Origin::By::job);
  voices.program(program);
  if (job != nullptr) voices.user(*job, Origin::By::job);
  if (line != nullptr) voices.user(*line, Origin::By::command_line);
  return {voices.value(), voices.origin(), program || job != nullptr || line != nullptr};
}

Plan resolve(const Model& model, int ranks, const std::string& plugin, const Answers& answers, const UserWord& user) {
  check_matches(model, user.units);
  Plan plan;
  plan.ranks = ranks;
  int shard_over = 0;
  std::tie(shard_over, plan.shard_over_origin) =
      decide(0, answers.shard_over, plugin, answers.plan_reason, user.shard_over);
  plan.shards = resolve_shards(shard_over, ranks, plan.shard_over_origin);
  std::tie(plan.all_reduce, plan.all_reduce_origin) =
      decide(AllReduce::each, answers.all_reduce, plugin, answers.plan_reason, user.all_reduce);
  std::tie(plan.backward_order, plan.backward_order_origin) =
      decide(BackwardOrder::micro_batch, {}, plugin, "", user.backward_order);
  const Decision core;
  for (int u = 0; u < model.unit_count(); ++u) {
    const UnitAnswer answer =
        static_cast<std::size_t>(u) < answers.units.size() ? answers.units[static_cast<std::size_t>(u)] : UnitAnswer{};
    UnitPlan unit;
    unit.name = model.name({u});
    unit.owns_parameters = !model.spec({u}).parameters.empty();
    const auto field = [&](Field which, auto Decision::*member, const auto& said, auto UnitOverride::*given) {
      std::tie(unit.decision.*member, unit.origins[static_cast<std::size_t>(which)]) =
          decide(core.*member, said, plugin, answer.reason, user.units, unit.name, u == 0, given);
    };
    field(Field::after_forward, &Decision::after_forward, answer.after_forward, &UnitOverride::after_forward);
    field(Field::after_backward, &Decision::after_backward, answer.after_backward, &UnitOverride::after_backward);
    field(Field::reduce, &Decision::reduce, answer.reduce, &UnitOverride::reduce);
    field(Field::prefetch_forward, &Decision::prefetch_forward, answer.prefetch_forward,
          &UnitOverride::prefetch_forward);
    field(Field::prefetch_backward, &Decision::prefetch_backward, answer.prefetch_backward,
          &UnitOverride::prefetch_backward);
    const AfterForward said = unit.decision.after_forward;
    unit.decision.after_forward = resolve_shrink(said, plan.shards, unit.name, unit.origin(Field::after_forward));
    if (said != unit.decision.after_forward)
      add_note(plan, fmt::format("{}: after_forward = {} is \"{}\": {}.", who(unit.origin(Field::after_forward)),
                                 said.ranks, value_text(unit.decision.after_forward),
                                 said.ranks == 1 ? "a group of one rank holds the whole unit"
                                                 : "that is the whole shard group"));
    UnitDtype computed = resolve_dtype(model, u, user);
    unit.dtype = computed.dtype;
    unit.dtype_origin = std::move(computed.origin);
    unit.own_dtype = computed.own;
    plan.units.push_back(std::move(unit));
  }
  add_notes(model, plan);
  return plan;
}

}  // namespace reshard
