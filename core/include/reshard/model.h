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
  double lr_scale = 1.0;            // times the job's learning rate; finite, not negative
  bool trainable = true;            // false: no gradient, no optimizer state, no update

  // For block-wise and whole-matrix optimizers: a rank's fragment of it begins and ends at multiples of so many elements.
  // 1: it may be cut anywhere (where the runtime cuts, at multiples of 64); kUncut: it lies on one rank. Costs padding.
  static constexpr int64_t kUncut = 0;
  int64_t block = 1;

  // Tied: another name for an earlier parameter of the same unit, of equal size, with which it shares memory, gradient and
  // state, and so decay and lr_scale, which it leaves out or repeats. A tied parameter of another unit is an error: put
  // both uses into one unit, or into one that encloses them.
  std::string same_as = {};

  int64_t elements() const;
  bool operator==(const Parameter&) const = default;
};

struct UnitSpec {
  std::string name = {};  // unique in the model, no '*', '?' or ':'; "root", a job's word for the root, is free to it alone
  std::vector<Parameter> parameters = {};
  int64_t saved_bytes =
      0;  // what the program keeps from this unit's forward to its backward, per run, micro-batch and rank
  double flops_forward = 0, flops_backward = 0;  // per micro-batch and rank; finite, not negative; 0 = not declared
  int repeats = 1;  // how often in a row a forward pass runs it, its children included; a pass has at most 2^20 runs

  // What it is gathered and computed in, and its gradient's dtype; absent: the job's [precision] param_dtype.
  std::optional<Dtype> param_dtype = {};

  // False: its backward does not read its parameters (an embedding): it is not gathered for it, and reading them then is
  // an error.
  bool needs_parameters_in_backward = true;

  // True: some ranks, or all, may leave it and what it encloses out of a pass. All then take part in its gathers and
  // reduces all the same, those without a use with zeros. False: a rank that leaves it out while others run it is an
  // error on all of them.
  //
  // A rank cannot see the others' hooks: what it leaves out it makes up for, by the declaration, when a later unit's hook
  // comes, at latest at the end of what encloses it. So among such units that are declared in a row, a rank that uses some
  // runs those in the declared order; all ranks run the row behind the unit that it is declared behind; a rank recomputes
  // one by recomputing a unit around it; and of several runs in a row it does without the backward of all or of none. The
  // other units may come in any order and as often as all ranks like. Where no rank leaves anything out, all that is legal
  // for other units is legal for these, except that backwards come in the reverse order of forwards; a run that is made
  // up for and comes later after all only costs its gather twice.
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
  void hold_bytes(int64_t bytes);  // throws Error(model) for a number below 0 or above 2^56
  int64_t held_bytes() const { return held_bytes_; }

  // For programs whose kernels know one number format: a job that asks for another is refused at its own line, before the
  // first step.
  void compute_only_in(Dtype dtype) { only_dtype_ = dtype; }
  std::optional<Dtype> only_dtype() const { return only_dtype_; }

  int unit_count() const { return static_cast<int>(units_.size()); }
  const UnitSpec& spec(Unit unit) const;  // REQUIRES, as the next two: a unit of this model
  const std::string& name(Unit unit) const { return spec(unit).name; }
  Unit parent(Unit unit) const;  // the root's parent is the root
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
  void check_parameters(const UnitSpec& spec) const;
  void check_tie(const UnitSpec& spec, std::size_t index) const;
  void check_run(const UnitSpec& spec, int64_t runs_around) const;
  void enter(UnitSpec spec, Unit parent, int64_t runs_around);

  std::vector<UnitSpec> units_;
  std::vector<Unit> parents_;
  std::vector<int64_t> runs_;  // by unit, in a declared forward pass
  int64_t runs_of_all_ = 0, saved_by_all_ = 0;
  int64_t held_bytes_ = 0;
  std::optional<Dtype> only_dtype_;
};

}  // namespace reshard
