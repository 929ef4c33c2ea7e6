#include "engine/accumulate.h"

#include <cstddef>

#include "device/device.h"

namespace reshard::engine {
namespace {

template <typename From>
void add_to_bf16(const From* from, Bf16* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    to[i] = Bf16(static_cast<float>(to[i]) + static_cast<float>(Bf16(static_cast<float>(from[i]))));
}

}  // namespace

void accumulate(const void* from, Dtype from_dtype, void* to, Dtype to_dtype, int64_t count, bool add) {
  const auto length = static_cast<std::size_t>(count);
  if (!add && from_dtype == to_dtype)
    return device::copy_bytes(to, from, length * static_cast<std::size_t>(bytes_of(to_dtype)));
  const bool wide = from_dtype == Dtype::fp32;
  const auto* floats = static_cast<const float*>(from);
  const auto* halves = static_cast<const Bf16*>(from);
  if (to_dtype == Dtype::fp32) {
    auto* target = static_cast<float*>(to);
    if (!add) return device::convert(halves, target, length);
    return wide ? device::add(floats, target, length) : device::add(halves, target, length);
  }
  auto* target = static_cast<Bf16*>(to);
  if (!add) return device::convert(floats, target, length);
  return wide ? add_to_bf16(floats, target, count) : add_to_bf16(halves, target, count);
}

void scale(void* values, Dtype dtype, int64_t count, float factor) {
  if (factor == 1.0F) return;
  if (dtype == Dtype::fp32) {
    auto* numbers = static_cast<float*>(values);
    for (int64_t i = 0; i < count; ++i) numbers[i] *= factor;
  } else {
    auto* numbers = static_cast<Bf16*>(values);
    for (int64_t i = 0; i < count; ++i) numbers[i] = Bf16(static_cast<float>(numbers[i]) * factor);
  }
}

}  // namespace reshard::engine
