#pragma once

// A unit's parameters and gradients as the kernels of network.h read and write them: fp32. In an fp32 unit they are the
// view's own memory. In a bf16 unit a parameter is widened into scratch memory when it is asked for as fp32, and what
// the piece adds to gradients is gathered there and rounded into the view's gradient when it ends. Matrices that are
// multiplied with stay bf16 where products.h multiplies bf16. Thread rules: a value of its rank's thread, inside one
// hook.

#include <cstdint>

#include "products.h"
#include "reshard/model.h"
#include "reshard/runtime.h"

namespace gpt {

// Floats of scratch that Numbers needs for the largest unit of a model, were it bf16.
int64_t numbers_scratch_floats(const reshard::Model& model);

class Numbers {
 public:
  // `scratch`: see above; not read for an fp32 unit. `backward`: gradients are wanted.
  Numbers(const reshard::View& view, const reshard::UnitSpec& unit, float* scratch, bool backward);

  const float* parameter(int index) const;
  Weights weights(int index) const;
  float* gradient(int index) const;

  // Rounds into the view's gradients what was added since construction. Once, at the end of a backward piece.
  void add_gradients() const;

 private:
  float* in_scratch(int index) const;
  int64_t floats() const;

  const reshard::View& view_;
  const reshard::UnitSpec& unit_;
  float* scratch_;
};

}  // namespace gpt
