#include "schedule/declared.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "model/layout.h"

namespace reshard::schedule {
namespace {

class Driver {
 public:
  Driver(const Model& model, Scheduler& scheduler, const OpVisitor& visit)
      : model_(model), scheduler_(scheduler), visit_(visit), children_(static_cast<std::size_t>(model.unit_count())) {
    for (int unit = 1; unit < model.unit_count(); ++unit)
      children_[static_cast<std::size_t>(model.parent({unit}).index)].push_back(unit);
  }

  void hook(Hook hook, int unit = -1) { visit_(hook, unit, scheduler_.on(hook, unit)); }

  void forward(int unit) {
    for (int run = 0; run < model_.spec({unit}).repeats; ++run) {
      hook(Hook::before_forward, unit);
      for (const int child : children_[static_cast<std::size_t>(unit)]) forward(child);
      hook(Hook::after_forward, unit);
    }
  }

  void backward(int unit) {
    const auto& children = children_[static_cast<std::size_t>(unit)];
    for (int run = 0; run < model_.spec({unit}).repeats; ++run) {
      hook(Hook::before_backward, unit);
      for (auto child = children.rbegin(); child != children.rend(); ++child) backward(*child);
      hook(Hook::after_backward, unit);
    }
  }

 private:
  const Model& model_;
  Scheduler& scheduler_;
  const OpVisitor& visit_;
  std::vector<std::vector<int>> children_;
};

// The places of one forward pass, as the declared pass itself comes to them.
void add_places(const Model& model, Step& step) {
  Step plain = step;
  for (ScheduledUnit& unit : plain.units) unit = {};
  Scheduler scheduler(std::move(plain));
  scheduler.on(Hook::begin_evaluation);
  const OpVisitor visit = [&](Hook hook, int unit, std::span<const Op>) {
    step.declared_places.push_back({.unit = unit, .begins = hook == Hook::before_forward});
  };
  Driver(model, scheduler, visit).forward(0);
}

}  // namespace

Step step_of(const Model& model, const MeshSize& mesh, int microbatches, const Precision& precision) {
  Step step;
  step.shards = mesh.shards;
  step.replicas = mesh.replicas;
  step.microbatches = microbatches;
  step.forward_order = model.forward_order();
  for (int u = 0; u < model.unit_count(); ++u) {
    const UnitSpec& spec = model.spec({u});
    const model::Layout layout(spec, mesh.shards);
    const Dtype computed = computed_dtype(model, u, precision);
    const int64_t trained = layout.trainable().shard_elements;
    // What lies inside a unit that may be unused is unused with it.
    const bool inside = u > 0 && step.units[static_cast<std::size_t>(model.parent({u}).index)].may_be_unused;
    step.units.push_back({.decision = {},
                          .shard_bytes = layout.shard_elements() * bytes_of(Dtype::fp32),
                          .copy_bytes = layout.shard_elements() * bytes_of(computed),
                          .gradient_bytes = trained * bytes_of(computed),
                          .reduced_bytes = trained * bytes_of(precision.reduce),
                          .casts = computed != Dtype::fp32,
                          .converts = computed != precision.reduce,
                          .saved_bytes = spec.saved_bytes,
                          .read_in_backward = spec.needs_parameters_in_backward,
                          .may_be_unused = spec.may_be_unused || inside});
  }
  // Only the runs of units that may be unused are made up for.
  const auto unused = [](const ScheduledUnit& unit) { return unit.may_be_unused; };
  if (std::any_of(step.units.begin(), step.units.end(), unused)) add_places(model, step);
  return step;
}

void declared_pass(const Model& model, Scheduler& scheduler, bool backward, const OpVisitor& visit) {
  Driver driver(model, scheduler, visit);
  driver.forward(0);
  if (backward) driver.backward(0);
}

Totals declared_totals(const Model& model, const Step& step, const BytesByCategory& resident) {
  // The first micro-batch begins with nothing, the last one ends with nothing, and their neighbours might feel it. One
  // in the middle, kRepeated, stands for all that are left out.
  constexpr int kRepeated = 3, kDriven = 6;
  const int left_out = std::max(0, step.microbatches - kDriven);
  Step shorter = step;
  shorter.microbatches -= left_out;
  Scheduler scheduler(std::move(shorter));
  Totals totals(resident);
  TrafficByOp before;
  declared_step(model, scheduler, [&](Hook hook, int unit, std::span<const Op> ops) {
    const int driven = scheduler.micro_batch();
    if (hook == Hook::begin_micro_batch && left_out > 0) {
      if (driven == kRepeated) before = totals.traffic();
      if (driven == kRepeated + 1) totals.repeat(before, left_out);
    }
    totals.apply(hook, unit, driven > kRepeated ? driven + left_out : driven, ops);
  });
  return totals;
}

void declared_step(const Model& model, Scheduler& scheduler, const OpVisitor& visit) {
  Driver driver(model, scheduler, visit);
  driver.hook(Hook::begin_step);
  for (int m = 0; m < scheduler.step().microbatches; ++m) {
    driver.hook(Hook::begin_micro_batch);
    driver.forward(0);
    driver.backward(0);
  }
  driver.hook(Hook::reduce);
  driver.hook(Hook::update);
  driver.hook(Hook::end_step);
}

}  // namespace reshard::schedule
