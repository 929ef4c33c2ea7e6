#pragma once

// What a program declares about its model: parameters, and the units that own them. Pure values, the same on every
// rank; the core never sees the model's code. A unit is what is gathered and freed together (design.md, "Words").
//
//   Model model({.name = "root", .parameters = {{"wte.weight", {256, 384}}, {"ln_f.weight", {384}, false}}});
//   Unit block = model.add({.name = "h.0", .parameters = {…}, .saved_bytes = …});
//
// The declared step, which `explain` and the predicted peak are computed from: before_forward of the root, every other
// unit in the order of add() (children inside their parent, `repeats` times), after_forward of the root; backward is
// the exact reverse. A run may deviate; the runtime then does what is needed and says that it did.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reshard/dtype.h"

namespace reshard {

struct Parameter {
  std::string name = {};            // unique in the model
  std::vector<int64_t> shape = {};  // elements per dimension, each >= 1; {} is a single element
  bool decay = true;                // false: the job's weight_decay does not apply to it
  double lr_scale = 1.0;            // times the job's learning rate
  bool trainable = true;            // false: no gradient, no optimizer state, no update

  // For block-wise and whole-matrix optimizers: a rank's fragment of it begins and ends at multiples of so many elements.
  // 1: it may be cut anywhere (where the runtime cuts, at multiples of 64); kUncut: it lies on one rank. Costs padding.
  static constexpr int64_t kUncut = 0;
  int64_t block = 1;

  // Tied: another name for an earlier parameter of the same unit, of equal size, with which it shares memory, gradient and
  // state. A tied parameter of another unit is an error: put both uses into one unit, or into one that encloses them.
  std::string same_as = {};

  int64_t elements() const;
  bool operator==(const Parameter&) const = default;
};

struct UnitSpec {
  std::string name = {};  // unique in the model, no '*', '?' or ':'
  std::vector<Parameter> parameters = {};
  int64_t saved_bytes =
      0;  // what the program keeps from this unit's forward to its backward, per run, micro-batch and rank
  double flops_forward = 0, flops_backward = 0;  // per micro-batch and rank; 0 = not declared
  int repeats = 1;                               // how often in a row a forward pass runs it, its children included

  // What it is gathered and computed in, and its gradient's dtype; absent: the job's [precision] param_dtype.
  std::optional<Dtype> param_dtype = {};

  // False: its backward does not read its parameters (an embedding): it is not gathered for it, and reading them then is
  // an error.
  bool needs_parameters_in_backward = true;

  // True: some ranks, or all, may leave it and what it encloses out of a pass. All then take part in its gathers and
  // reduces all the same, those without a use with zeros. False: a rank that leaves it out while others run it is an
  // error on all of them.
  bool may_be_unused = false;

  bool trainable() const;  // false: every parameter is frozen, so there is no gradient and no optimizer state
};

// A handle: cheap, comparable, valid for the model that gave it and every copy of that model.
struct Unit {
  int index = 0;
  bool operator==(const Unit&) const = default;
};

inline constexpr Unit kRoot{0};

class Model {
 public:
  // The root encloses every other unit and is fixed here. It may own no parameters.
  explicit Model(UnitSpec root);

  // Declares the next unit of the forward order, inside `parent`. Throws Error(model) for a name that is taken or bad.
  Unit add(UnitSpec spec, Unit parent = kRoot);

  // Bytes that the program holds during the whole run beside its units (scratch memory), per rank; counted as
  // activations.
  void hold_bytes(int64_t bytes) { held_bytes_ = bytes; }
  int64_t held_bytes() const { return held_bytes_; }

  // For programs whose kernels know one number format: a job that asks for another is refused at its own line, before the
  // first step.
  void compute_only_in(Dtype dtype) { only_dtype_ = dtype; }
  std::optional<Dtype> only_dtype() const { return only_dtype_; }

  int unit_count() const { return static_cast<int>(units_.size()); }
  const UnitSpec& spec(Unit unit) const { return units_[static_cast<std::size_t>(unit.index)]; }
  const std::string& name(Unit unit) const { return spec(unit).name; }
  Unit parent(Unit unit) const {
    return parents_[static_cast<std::size_t>(unit.index)];
  }  // the root's parent is the root
  std::span<const UnitSpec> units() const { return units_; }

  // Throws Error(model) naming the nearest unit.
  Unit find(std::string_view unit_name) const;

  // Where a parameter stands. Throws Error(model) naming the nearest parameter.
  struct Place {
    Unit unit;
    int index = 0;  // in spec(unit).parameters
  };
  Place find_parameter(std::string_view parameter_name) const;

  int64_t parameter_count() const;  // elements; padding left out, tied ones counted once

  // Units in the order in which the declared forward pass enters them (before_forward), repeats included.
  std::vector<int> forward_order() const;

 private:
  void check(const UnitSpec& spec) const;
  void check_tie(const UnitSpec& spec, std::size_t index) const;

  std::vector<UnitSpec> units_;
  std::vector<Unit> parents_;
  int64_t held_bytes_ = 0;
  std::optional<Dtype> only_dtype_;
};

}  // namespace reshard
