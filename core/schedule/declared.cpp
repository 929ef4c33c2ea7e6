#include "schedule/declared.h"

#include <vector>

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

}  // namespace

void declared_pass(const Model& model, Scheduler& scheduler, bool backward, const OpVisitor& visit) {
  Driver driver(model, scheduler, visit);
  driver.forward(0);
  if (backward) driver.backward(0);
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
