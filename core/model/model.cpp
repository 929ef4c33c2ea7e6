#include "reshard/model.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "reshard/error.h"
#include "reshard/text.h"

namespace reshard {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 56;  // bytes, padding and sums over units then fit in 64 bits
constexpr int64_t kMostBytes = int64_t{1} << 56;     // so do the program's own
constexpr int64_t kMostRuns = int64_t{1} << 20;      // a plan is made by going through a whole pass
constexpr int64_t kMostBlock = int64_t{1} << 20;     // the least common multiple of some is still small

// A NaN has a sign that means nothing to anybody.
std::string number_text(double value) {
  return std::isnan(value) ? "nan" : fmt::format("{}", value);
}

Error not_found(const char* kind, std::string_view name, const std::vector<std::string>& known) {
  const std::string near = base::nearest(name, known);
  return Error(ErrorCode::model, fmt::format("the model has no {} \"{}\"", kind, name), "",
               near.empty() ? "" : fmt::format("did you mean \"{}\"?", near));
}

}  // namespace

int64_t Parameter::elements() const {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

bool UnitSpec::trainable() const {
  return std::any_of(parameters.begin(), parameters.end(), [](const Parameter& p) { return p.trainable; });
}

Model::Model(UnitSpec root) {
  check(root);
  enter(std::move(root), kRoot, 1);
}

Unit Model::add(UnitSpec spec, Unit parent) {
  if (parent.index < 0 || parent.index >= unit_count())
    throw Error(ErrorCode::model, fmt::format("unit \"{}\" has a parent that is not of this model", spec.name));
  check(spec);
  enter(std::move(spec), parent, runs_[static_cast<std::size_t>(parent.index)]);
  return {unit_count() - 1};
}

void Model::enter(UnitSpec spec, Unit parent, int64_t runs_around) {
  check_run(spec, runs_around);
  runs_.push_back(runs_around * spec.repeats);
  runs_of_all_ += runs_.back();
  saved_by_all_ += runs_.back() * spec.saved_bytes;
  units_.push_back(std::move(spec));
  parents_.push_back(parent);
}

const UnitSpec& Model::spec(Unit unit) const {
  RESHARD_CHECK(unit.index >= 0 && unit.index < unit_count(), "a unit is one that the model has given");
  return units_[static_cast<std::size_t>(unit.index)];
}

Unit Model::parent(Unit unit) const {
  RESHARD_CHECK(unit.index >= 0 && unit.index < unit_count(), "a unit is one that the model has given");
  return parents_[static_cast<std::size_t>(unit.index)];
}

void Model::hold_bytes(int64_t bytes) {
  if (bytes < 0 || bytes > kMostBytes)
    throw Error(ErrorCode::model, fmt::format("the program holds {} bytes; 0 to 2^56 can be counted", bytes));
  held_bytes_ = bytes;
}

// What a whole pass adds up to.
void Model::check_run(const UnitSpec& spec, int64_t runs_around) const {
  const auto fail = [&](const std::string& what) { throw Error(ErrorCode::model, what, "unit \"" + spec.name + "\""); };
  if (spec.repeats > (kMostRuns - runs_of_all_) / runs_around)
    fail(fmt::format("with repeats = {} a forward pass would have more than 2^20 runs of units", spec.repeats));
  if (spec.saved_bytes > (kMostBytes - saved_by_all_) / (runs_around * spec.repeats))
    fail(fmt::format("with saved_bytes = {} a forward pass would save more than 2^56 bytes", spec.saved_bytes));
}

void Model::check(const UnitSpec& spec) const {
  const auto fail = [&](const std::string& what) { throw Error(ErrorCode::model, what, "unit \"" + spec.name + "\""); };
  if (spec.name.empty() || spec.name.find_first_of("*?:\n") != std::string::npos)
    fail("a unit's name must not be empty or have '*', '?' or ':'");
  if (spec.repeats < 1) fail("repeats must be at least 1");
  if (spec.saved_bytes < 0) fail("saved_bytes must not be negative");
  for (const double flops : {spec.flops_forward, spec.flops_backward})
    if (!std::isfinite(flops) || flops < 0)
      fail(fmt::format("flops_forward and flops_backward must be finite and not negative, not {}", number_text(flops)));
  for (const UnitSpec& other : units_)
    if (other.name == spec.name) fail("the model has a unit of this name already");
  if (!units_.empty() && spec.name == "root")
    fail(fmt::format("in a job \"root\" is the model's root, here \"{}\": no other unit may be called so",
                     units_[0].name));
  check_parameters(spec);
}

void Model::check_parameters(const UnitSpec& spec) const {
  const auto fail = [&](const std::string& what) { throw Error(ErrorCode::model, what, "unit \"" + spec.name + "\""); };
  int64_t grid = 1;
  for (std::size_t i = 0; i < spec.parameters.size(); ++i) {
    const Parameter& parameter = spec.parameters[i];
    if (parameter.name.empty()) fail("a parameter has no name");
    int64_t elements = 1;
    for (const int64_t size : parameter.shape) {
      if (size < 1)
        fail(fmt::format("parameter \"{}\" has a dimension of {}; each must be at least 1", parameter.name, size));
      if (size > kMostElements / elements)
        fail(fmt::format("parameter \"{}\" has more than 2^56 elements", parameter.name));
      elements *= size;
    }
    if (parameter.block < 0 || parameter.block > kMostBlock)
      fail(fmt::format("parameter \"{}\" asks for blocks of {} elements; they may have 1 to {}, or kUncut",
                       parameter.name, parameter.block, kMostBlock));
    if (parameter.block > 1) grid = std::lcm(grid, parameter.block);
    if (grid > kMostElements >> 24U)
      fail(fmt::format("parameter \"{}\"'s blocks of {} elements and those before have no small common multiple",
                       parameter.name, parameter.block));
    if (!std::isfinite(parameter.lr_scale) || parameter.lr_scale < 0)
      fail(fmt::format("parameter \"{}\" has lr_scale = {}; it must be finite and not negative", parameter.name,
                       number_text(parameter.lr_scale)));
    check_tie(spec, i);
    for (std::size_t j = 0; j < i; ++j)
      if (spec.parameters[j].name == parameter.name)
        fail(fmt::format("parameter \"{}\" is declared twice", parameter.name));
    for (const UnitSpec& other : units_)
      for (const Parameter& owned : other.parameters)
        if (owned.name == parameter.name)
          throw Error(ErrorCode::model,
                      fmt::format("parameter \"{}\" belongs to unit \"{}\" already", parameter.name, other.name),
                      "unit \"" + spec.name + "\"",
                      "a shared parameter is declared once, in a unit that encloses its uses");
  }
}

// A tied parameter stands behind the one whose memory it shares, in the same unit.
void Model::check_tie(const UnitSpec& spec, std::size_t index) const {
  const Parameter& parameter = spec.parameters[index];
  if (parameter.same_as.empty()) return;
  for (std::size_t other = 0; other < index; ++other) {
    const Parameter& first = spec.parameters[other];
    if (first.name != parameter.same_as) continue;
    const Parameter plain;  // what a declaration leaves out
    if ((parameter.decay != plain.decay && parameter.decay != first.decay) ||
        (parameter.lr_scale != plain.lr_scale && parameter.lr_scale != first.lr_scale))
      throw Error(ErrorCode::model,
                  fmt::format("parameter \"{}\" is the same as \"{}\" and cannot have another decay or lr_scale",
                              parameter.name, first.name),
                  "unit \"" + spec.name + "\"", "say them at \"" + first.name + "\" alone");
    if (first.elements() == parameter.elements() && first.trainable == parameter.trainable && first.same_as.empty())
      return;
    throw Error(ErrorCode::model,
                fmt::format("parameter \"{}\" cannot be the same as \"{}\": {}", parameter.name, first.name,
                            first.same_as.empty() ? "they differ in size, or one of them is frozen"
                                                  : "that one is another name itself"),
                "unit \"" + spec.name + "\"");
  }
  for (const UnitSpec& unit : units_)
    for (const Parameter& owned : unit.parameters)
      if (owned.name == parameter.same_as)
        throw Error(ErrorCode::model,
                    fmt::format("parameter \"{}\" of unit \"{}\" is the same as \"{}\" of unit \"{}\"", parameter.name,
                                spec.name, owned.name, unit.name),
                    "unit \"" + spec.name + "\"",
                    "tied parameters belong to one unit: put both into one that encloses their uses");
  throw Error(ErrorCode::model,
              fmt::format("parameter \"{}\" is the same as \"{}\", which no parameter before it is called",
                          parameter.name, parameter.same_as),
              "unit \"" + spec.name + "\"");
}

Unit Model::find(std::string_view unit_name) const {
  std::vector<std::string> known;
  for (int u = 0; u < unit_count(); ++u) {
    if (units_[static_cast<std::size_t>(u)].name == unit_name) return {u};
    known.push_back(units_[static_cast<std::size_t>(u)].name);
  }
  throw not_found("unit", unit_name, known);
}

Model::Place Model::find_parameter(std::string_view parameter_name) const {
  std::vector<std::string> known;
  for (int u = 0; u < unit_count(); ++u) {
    const auto& parameters = units_[static_cast<std::size_t>(u)].parameters;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (parameters[i].name == parameter_name) return {{u}, static_cast<int>(i)};
      known.push_back(parameters[i].name);
    }
  }
  throw not_found("parameter", parameter_name, known);
}

int64_t Model::parameter_count() const {
  int64_t count = 0;
  for (const UnitSpec& unit : units_)
    for (const Parameter& parameter : unit.parameters)
      if (parameter.same_as.empty()) count += parameter.elements();
  return count;
}

std::vector<int> Model::forward_order() const {
  std::vector<std::vector<int>> children(units_.size());
  for (int unit = 1; unit < unit_count(); ++unit)
    children[static_cast<std::size_t>(parents_[static_cast<std::size_t>(unit)].index)].push_back(unit);
  std::vector<int> order;
  const auto enter = [&](const auto& self, int unit) -> void {
    for (int run = 0; run < units_[static_cast<std::size_t>(unit)].repeats; ++run) {
      order.push_back(unit);
      for (const int child : children[static_cast<std::size_t>(unit)]) self(self, child);
    }
  };
  enter(enter, 0);
  return order;
}

}  // namespace reshard
