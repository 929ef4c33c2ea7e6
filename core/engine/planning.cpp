#include "engine/planning.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/math.h"
#include "model/layout.h"
#include "plugin/catalog.h"
#include "plugin/strategy.h"
#include "reshard/error.h"
#include "reshard/text.h"
#include "schedule/declared.h"
#include "schedule/totals.h"
#include "strategy/resolve.h"

namespace reshard::engine {
namespace {

int64_t whole_bytes(const UnitSpec& spec, Dtype dtype, int shards) {
  return model::Layout(spec, shards).whole_elements() * bytes_of(dtype);
}

Dtype dtype_of(const std::string& text) {
  return text == "bf16" ? Dtype::bf16 : Dtype::fp32;
}

Problem make_problem(const Job& job, const Model& model) {
  Problem problem;
  problem.ranks = job.rank_count();
  if (job.mesh.ranks_per_node > 0 && problem.ranks % job.mesh.ranks_per_node != 0)
    throw Error(ErrorCode::config,
                fmt::format("mesh.ranks_per_node = {} does not divide the {} {}", job.mesh.ranks_per_node,
                            problem.ranks, problem.ranks == 1 ? "rank" : "ranks"),
                job.where("mesh.ranks_per_node"),
                "use 0 (all of them) or a divisor: " + base::list_text(base::divisors(problem.ranks)));
  problem.ranks_per_node = job.mesh.ranks_per_node > 0 ? job.mesh.ranks_per_node : problem.ranks;
  problem.microbatches = job.train.microbatches;
  problem.budget_bytes = job.memory.budget;
  problem.seed = job.train.seed;
  const schedule::Precision computed = precision(job, model);
  for (int u = 0; u < model.unit_count(); ++u) {
    const UnitSpec& spec = model.spec({u});
    ProblemUnit unit;
    unit.name = spec.name;
    unit.parent = u == 0 ? -1 : model.parent({u}).index;
    unit.root = u == 0;
    const Dtype dtype = schedule::computed_dtype(model, u, computed);
    const int64_t element = bytes_of(dtype);
    unit.bytes = whole_bytes(spec, dtype, problem.ranks);
    for (const Parameter& p : spec.parameters)
      if (p.trainable && p.same_as.empty()) unit.trainable_bytes += p.elements() * element;
    unit.gradient_bytes = model::Layout(spec, problem.ranks).trainable().shard_elements * problem.ranks * element;
    unit.flops_forward = spec.flops_forward;
    unit.flops_backward = spec.flops_backward;
    problem.units.push_back(std::move(unit));
  }
  return problem;
}

template <typename T>
std::optional<Given<T>> given(const Job& job, const std::optional<T>& value, const char* key) {
  if (!value) return std::nullopt;
  Given<T> given{*value, job.where(key)};
  if (const auto place = job.places.find(key); place != job.places.end())
    given.command_line = place->second.command_line;
  if (const auto found = job.replaced.find(key); found != job.replaced.end())
    given.replaced = found->second.text + " (" + found->second.where + ")";
  return given;
}

// Absent where it says what the core does anyway.
std::optional<BackwardOrder> backward_order(const Job& job) {
  for (const BackwardOrder order : {BackwardOrder::since_backward, BackwardOrder::since_step})
    if (job.strategy.backward_order == value_text(order)) return order;
  return std::nullopt;
}

UserWord user_word(const Job& job) {
  const char* key = "precision.param_dtype";
  std::optional<Dtype> all;  // absent where it says what the core does anyway
  if (job.precision.param_dtype != "fp32" || job.places.contains(key)) all = dtype_of(job.precision.param_dtype);
  return {job.strategy.units, given(job, job.strategy.shard_over, "strategy.shard_over"),
          given(job, job.strategy.all_reduce, "strategy.all_reduce"),
          given(job, backward_order(job), "strategy.backward_order"), given(job, all, key)};
}

schedule::Totals drive(const Job& job, const Model& model, const Plan& plan, int optimizer_states) {
  if (plan.backward_order == BackwardOrder::micro_batch)
    return schedule::declared_totals(model, make_step(job, model, plan),
                                     resident_bytes(job, model, plan.shards, optimizer_states));
  schedule::Totals totals(resident_bytes(job, model, plan.shards, optimizer_states));
  schedule::Scheduler scheduler(make_step(job, model, plan));
  const auto visit = [&scheduler](schedule::Totals& sum) {
    return [&](schedule::Hook hook, int unit, std::span<const schedule::Op> ops) {
      sum.apply(hook, unit, scheduler.micro_batch(), ops);
    };
  };
  schedule::declared_step(model, scheduler, visit(totals));
  // A step that follows a forward-only pass may gather more: its peak counts too.
  schedule::Totals after(totals.now());
  const schedule::OpVisitor add = visit(after);
  add(schedule::Hook::begin_evaluation, -1, scheduler.on(schedule::Hook::begin_evaluation));
  schedule::declared_pass(model, scheduler, false, add);
  add(schedule::Hook::end_evaluation, -1, scheduler.on(schedule::Hook::end_evaluation));
  schedule::declared_step(model, scheduler, add);
  totals.take_peak(after);
  return totals;
}

bool keeps(const Decision& decision) {
  return decision.after_forward.kind != AfterForward::Kind::free || decision.after_backward == AfterBackward::keep;
}

// A price drives a whole step, so that the prices of all kept units would take time in the square of their number: the
// largest units are priced.
void price_kept(const Job& job, const Model& model, int optimizer_states, PlannedStrategy& planned) {
  const Plan& plan = planned.plan;
  std::vector<KeptUnit>& kept = planned.kept;
  if (plan.shards == 1) return;  // everything is there anyway
  for (int u = 0; u < model.unit_count(); ++u)
    if (plan.units[static_cast<std::size_t>(u)].owns_parameters &&
        keeps(plan.units[static_cast<std::size_t>(u)].decision))
      kept.push_back({u, 0});
  const auto whole = [&](const KeptUnit& unit) { return planned.units[static_cast<std::size_t>(unit.unit)].whole; };
  std::stable_sort(kept.begin(), kept.end(), [&](const KeptUnit& a, const KeptUnit& b) { return whole(a) > whole(b); });
  planned.kept_unpriced = kept.size() - std::min(kept.size(), kMostPriced);
  kept.resize(kept.size() - planned.kept_unpriced);
  std::sort(kept.begin(), kept.end(), [](const KeptUnit& a, const KeptUnit& b) { return a.unit < b.unit; });
  Plan freed = plan;
  for (KeptUnit& one : kept) {
    Decision& decision = freed.units[static_cast<std::size_t>(one.unit)].decision;
    const Decision before = decision;
    decision.after_forward = AfterForward::free();
    decision.after_backward = AfterBackward::free;
    one.peak_bytes = planned.peak.total() - drive(job, model, freed, optimizer_states).peak_bytes();
    decision = before;
  }
}

// Before a kernel asks for a format that its unit does not have.
void check_dtypes(const Model& model, const Plan& plan) {
  for (const UnitPlan& unit : plan.units)
    if (unit.owns_parameters && model.only_dtype() && unit.dtype != *model.only_dtype())
      throw Error(
          ErrorCode::config,
          fmt::format("{} = \"{}\"{}, and this program computes in {} alone",
                      unit.own_dtype ? "param_dtype" : "precision.param_dtype", name(unit.dtype),
                      unit.own_dtype ? fmt::format(" of unit \"{}\"", unit.name) : "", name(*model.only_dtype())),
          who(unit.dtype_origin), fmt::format("use \"{}\"", name(*model.only_dtype())));
}

OptionValues merged_options(const Job& job, const std::string& strategy, const StrategyChoice& choice) {
  OptionValues options;
  if (const auto found = job.strategy.options.find(strategy); found != job.strategy.options.end())
    options = found->second;
  for (const auto& [key, value] : choice.options) options.insert_or_assign(key, value);
  return options;
}

// A choice that names a variant of the job is the variant's strategy, with the choice's options over the variant's.
StrategyChoice of_variant(const Job::Variant& variant, const StrategyChoice& choice) {
  StrategyChoice of{variant.plugin, variant.options, variant.where};
  for (const auto& [key, value] : choice.options) of.options.insert_or_assign(key, value);
  return of;
}

}  // namespace

StrategyChoice chosen_strategy(const Job& job) {
  require_plugin(job);
  return {job.strategy.plugin, {}, job.where("strategy.plugin")};
}

int optimizer_states(const Job& job) {
  if (job.optimizer.name == "adamw") return 2;
  if (job.optimizer.name == "sgd") return job.optimizer.momentum > 0 ? 1 : 0;
  return 0;
}

schedule::Precision precision(const Job& job, const Model& model) {
  schedule::Precision precision{dtype_of(job.precision.param_dtype), dtype_of(job.precision.reduce_dtype), {}};
  const UserWord user = user_word(job);
  for (int u = 0; u < model.unit_count(); ++u)
    precision.resolved.push_back(resolve_dtype(model, u, user).dtype);
  return precision;
}

schedule::BytesByCategory resident_bytes(const Job& job, const Model& model, int shards, int optimizer_states) {
  constexpr int64_t kElement = bytes_of(Dtype::fp32);
  schedule::BytesByCategory bytes{};
  int64_t widest = 0;
  for (const UnitSpec& spec : model.units()) {
    const model::Layout layout(spec, shards);
    const int64_t trained = layout.trainable().shard_elements * kElement;
    bytes[static_cast<std::size_t>(MemoryCategory::sharded_parameters)] += layout.shard_elements() * kElement;
    bytes[static_cast<std::size_t>(MemoryCategory::optimizer_state)] += trained * optimizer_states;
    widest = std::max(widest, trained);
  }
  if (dtype_of(job.precision.reduce_dtype) != Dtype::fp32)
    bytes[static_cast<std::size_t>(MemoryCategory::reduce_buffers)] = widest;
  bytes[static_cast<std::size_t>(MemoryCategory::activations)] = model.held_bytes();
  return bytes;
}

schedule::Step make_step(const Job& job, const Model& model, const Plan& plan) {
  schedule::Step step = schedule::step_of(model, {.shards = plan.shards, .replicas = plan.replicas()},
                                          job.train.microbatches, precision(job, model));
  step.all_reduce = plan.all_reduce;
  step.backward_order = plan.backward_order;
  step.overlap = job.mesh.overlap;
  step.divide_at_end = job.train.divisor == "tokens";
  for (std::size_t u = 0; u < step.units.size(); ++u) step.units[u].decision = plan.units[u].decision;
  return step;
}

void predict(const Job& job, const Model& model, const Plan& plan, int optimizer_states, TrafficByOp& traffic,
             MemoryPeak& peak) {
  const schedule::Totals totals = drive(job, model, plan, optimizer_states);
  traffic = totals.traffic();
  peak = totals.peak(model);
}

struct Deciding::Strategy {
  Strategy(const Job& job, const StrategyChoice& choice, std::vector<std::string>& log)
      : loaded(plugin::Strategy::load(
            plugin::find(choice.plugin, plugin::search_folders(job.plugins), choice.where).file,
            [&log](plugin::LogLevel level, std::string_view, std::string_view line) {
              if (level >= plugin::LogLevel::warn)
                log.push_back(fmt::format("{}: {}", level == plugin::LogLevel::warn ? "warning" : "error", line));
            },
            choice.where, job.plugins)),
        instance(loaded.create(merged_options(job, loaded.info().name, choice), choice.where)) {}

  const plugin::Strategy loaded;
  plugin::StrategyInstance instance;
};

Deciding::Deciding(const Job& job, const Model& model, const StrategyChoice& choice, int optimizer_states)
    : job_(job), model_(model), optimizer_states_(optimizer_states) {
  StrategyChoice resolved = choice;
  for (const Job::Variant& variant : job.strategy.variants) {
    if (variant.name != choice.plugin || variant.plugin == choice.plugin) continue;
    resolved = of_variant(variant, choice);
    variant_ = variant.name;
    break;
  }
  check_groups(job, model);
  strategy_ = std::make_unique<Strategy>(job, resolved, log_);
}

Deciding::~Deciding() = default;

bool Deciding::takes_feedback() const {
  return strategy_->instance.takes_feedback();
}

bool Deciding::tell(const StepSummary& step) {
  return strategy_->instance.tell(step);
}

PlannedStrategy Deciding::decide() {
  PlannedStrategy planned;
  const plugin::StrategyInfo& info = strategy_->loaded.info();
  planned.name = info.name;
  planned.version = info.version;
  planned.file = info.file.string();
  planned.summary = info.summary;
  planned.variant = variant_;
  planned.identity = {info.sha256, info.abi, info.required_abi, info.vendor, info.build, strategy_->instance.options()};
  planned.takes_feedback = takes_feedback();

  const UserWord user = user_word(job_);
  Problem problem = make_problem(job_, model_);
  problem.predicted_peak = [&](const Answers& answers) {
    return drive(job_, model_, resolve(model_, problem.ranks, planned.name, answers, user), optimizer_states_)
        .peak_bytes();
  };
  planned.plan = resolve(model_, problem.ranks, planned.name, strategy_->instance.decide(problem), user);
  check_dtypes(model_, planned.plan);
  predict(job_, model_, planned.plan, optimizer_states_, planned.traffic, planned.peak);
  for (const UnitSpec& spec : model_.units()) {
    const model::Layout layout(spec, planned.plan.shards);
    const Dtype dtype = planned.plan.units[planned.units.size()].dtype;
    planned.units.push_back({whole_bytes(spec, dtype, planned.plan.shards),
                             layout.shard_elements() * bytes_of(Dtype::fp32), spec.saved_bytes, dtype});
  }
  price_kept(job_, model_, optimizer_states_, planned);
  planned.log = std::exchange(log_, {});
  return planned;
}

PlannedStrategy plan_strategy(const Job& job, const Model& model, const StrategyChoice& choice, int optimizer_states) {
  return Deciding(job, model, choice, optimizer_states).decide();
}

void check_budget(const Job& job, const PlannedStrategy& planned) {
  const int64_t peak = planned.peak.total();
  if (job.memory.budget == 0 || peak <= job.memory.budget) return;
  std::vector<std::pair<int64_t, std::string>> parts;
  for (int c = 0; c < kMemoryCategories; ++c)
    if (planned.peak.bytes[static_cast<std::size_t>(c)] > 0)
      parts.emplace_back(planned.peak.bytes[static_cast<std::size_t>(c)], name(static_cast<MemoryCategory>(c)));
  std::sort(parts.rbegin(), parts.rend());
  std::vector<std::string> largest;
  for (std::size_t i = 0; i < std::min<std::size_t>(3, parts.size()); ++i)
    largest.push_back(parts[i].second + " " + base::bytes_text(parts[i].first));
  const auto costliest =
      std::max_element(planned.kept.begin(), planned.kept.end(),
                       [](const KeptUnit& a, const KeptUnit& b) { return a.peak_bytes < b.peak_bytes; });
  const std::string remedy = costliest != planned.kept.end() && costliest->peak_bytes > 0
                                 ? fmt::format("free unit \"{}\" to save {}, use more ranks, or raise the budget",
                                               planned.plan.units[static_cast<std::size_t>(costliest->unit)].name,
                                               base::bytes_text(costliest->peak_bytes))
                                 : "use more ranks or smaller micro-batches, or raise the budget";
  // A few bytes too little would read as the same number twice.
  const bool close = base::bytes_text(peak) == base::bytes_text(job.memory.budget);
  const auto text = [close](int64_t bytes) {
    return close ? base::count_text(bytes) + " bytes" : base::bytes_text(bytes);
  };
  throw Error(
      ErrorCode::budget,
      fmt::format("strategy {} needs {} per rank at its predicted peak ({}, {}), above the budget of {}; largest: {}",
                  planned.name, text(peak),
                  planned.peak.unit.empty() ? "no unit" : "unit " + planned.peak.unit, planned.peak.moment,
                  text(job.memory.budget), base::list_text(largest)),
      job.where("memory.budget"), remedy);
}

}  // namespace reshard::engine
