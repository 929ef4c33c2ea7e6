#include "numbers.h"

#include <algorithm>
#include <cstddef>

namespace gpt {

using reshard::Bf16;
using reshard::Dtype;

namespace {

constexpr int64_t kAligned = 16;  // floats: 64 bytes

int64_t padded(int64_t floats) {
  return (floats + kAligned - 1) / kAligned * kAligned;
}

int64_t floats_of(const reshard::UnitSpec& unit) {
  int64_t sum = 0;
  for (const reshard::Parameter& parameter : unit.parameters) sum += padded(parameter.elements());
  return sum;
}

}  // namespace

int64_t numbers_scratch_floats(const reshard::Model& model) {
  int64_t most = 0;
  for (const reshard::UnitSpec& unit : model.units()) most = std::max(most, floats_of(unit));
  return 2 * most;  // parameters, then gradients
}

Numbers::Numbers(const reshard::View& view, const reshard::UnitSpec& unit, float* scratch, bool backward)
    : view_(view), unit_(unit), scratch_(scratch) {
  if (view_.dtype() == Dtype::fp32) return;
  if (backward) std::fill_n(scratch_ + floats(), floats(), 0.0F);
}

int64_t Numbers::floats() const {
  return floats_of(unit_);
}

float* Numbers::in_scratch(int index) const {
  float* place = scratch_;
  for (int p = 0; p < index; ++p) place += padded(unit_.parameters[static_cast<std::size_t>(p)].elements());
  return place;
}

const float* Numbers::parameter(int index) const {
  if (view_.dtype() == Dtype::fp32) return view_.parameter(index).data();
  float* wide = in_scratch(index);
  for (const Bf16 value : view_.parameter_bf16(index)) *wide++ = static_cast<float>(value);
  return in_scratch(index);
}

Weights Numbers::weights(int index) const {
  if (view_.dtype() == Dtype::fp32 || !multiplies_bf16()) return parameter(index);
  return view_.parameter_bf16(index).data();
}

float* Numbers::gradient(int index) const {
  return view_.dtype() == Dtype::fp32 ? view_.gradient(index).data() : in_scratch(index) + floats();
}

void Numbers::add_gradients() const {
  if (view_.dtype() == Dtype::fp32) return;
  for (int p = 0; p < static_cast<int>(unit_.parameters.size()); ++p) {
    const float* added = in_scratch(p) + floats();
    for (Bf16& value : view_.gradient_bf16(p)) value = Bf16(static_cast<float>(value) + *added++);
  }
}

}  // namespace gpt
