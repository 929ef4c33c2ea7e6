#include "optim/sgd.h"

#include <fmt/format.h>
#include <immintrin.h>

#include <cmath>

#include "base/check.h"
#include "optim/flush_subnormals.h"
#include "reshard/error.h"

namespace reshard::optim {
namespace {

struct Numbers {
  float gradient_scale, weight_decay, momentum, lr;
};

// `buffer` is null without momentum.
struct Arrays {
  float* values;
  const float* gradient;
  float* buffer;
  int64_t length;
};

// The formula itself. The vector loops below repeat it operation by operation; their tails call it. Never inlined, so
// that no arithmetic moves out of the region in which subnormal numbers are flushed.
[[gnu::noinline]] void update_scalar(const Arrays& a, const Numbers& n, int64_t from) {
  for (int64_t i = from; i < a.length; ++i) {
    float g = a.gradient[i] * n.gradient_scale + n.weight_decay * a.values[i];
    if (a.buffer != nullptr) a.buffer[i] = g = n.momentum * a.buffer[i] + g;
    a.values[i] = a.values[i] - n.lr * g;
  }
}

__attribute__((target("avx2"))) void update_avx2(const Arrays& a, const Numbers& n) {
  const __m256 scale = _mm256_set1_ps(n.gradient_scale), decay = _mm256_set1_ps(n.weight_decay);
  const __m256 momentum = _mm256_set1_ps(n.momentum), lr = _mm256_set1_ps(n.lr);
  int64_t i = 0;
  for (; i + 8 <= a.length; i += 8) {
    const __m256 p = _mm256_loadu_ps(a.values + i);
    __m256 g = _mm256_add_ps(_mm256_mul_ps(_mm256_loadu_ps(a.gradient + i), scale), _mm256_mul_ps(decay, p));
    if (a.buffer != nullptr) {
      g = _mm256_add_ps(_mm256_mul_ps(momentum, _mm256_loadu_ps(a.buffer + i)), g);
      _mm256_storeu_ps(a.buffer + i, g);
    }
    _mm256_storeu_ps(a.values + i, _mm256_sub_ps(p, _mm256_mul_ps(lr, g)));
  }
  update_scalar(a, n, i);
}

__attribute__((target("avx512f"))) void update_avx512(const Arrays& a, const Numbers& n) {
  const __m512 scale = _mm512_set1_ps(n.gradient_scale), decay = _mm512_set1_ps(n.weight_decay);
  const __m512 momentum = _mm512_set1_ps(n.momentum), lr = _mm512_set1_ps(n.lr);
  int64_t i = 0;
  for (; i + 16 <= a.length; i += 16) {
    const __m512 p = _mm512_loadu_ps(a.values + i);
    __m512 g = _mm512_add_ps(_mm512_mul_ps(_mm512_loadu_ps(a.gradient + i), scale), _mm512_mul_ps(decay, p));
    if (a.buffer != nullptr) {
      g = _mm512_add_ps(_mm512_mul_ps(momentum, _mm512_loadu_ps(a.buffer + i)), g);
      _mm512_storeu_ps(a.buffer + i, g);
    }
    _mm512_storeu_ps(a.values + i, _mm512_sub_ps(p, _mm512_mul_ps(lr, g)));
  }
  update_scalar(a, n, i);
}

}  // namespace

Sgd::Sgd(const SgdOptions& options, Instructions set) : options_{options}, set_{set} {
  if (!(options.momentum >= 0 && options.momentum < 1))
    throw Error(ErrorCode::config, fmt::format("momentum is {}", options.momentum), "optimizer sgd",
                "give a number from 0 to below 1");
  if (!(options.weight_decay >= 0 && std::isfinite(options.weight_decay)))
    throw Error(ErrorCode::config, fmt::format("weight_decay is {}", options.weight_decay), "optimizer sgd",
                "give a number of at least 0");
  RESHARD_CHECK(set <= best_instructions(), "a kernel must run on this processor");
}

std::vector<std::string> Sgd::state_names() const {
  if (options_.momentum == 0) return {};
  return {"momentum_buffer"};
}

void Sgd::update(const Fragment& fragment, const StepInfo& step) const {
  const bool has_buffer = options_.momentum != 0;
  RESHARD_CHECK(fragment.state.size() == (has_buffer ? 1U : 0U), "SGD has a state tensor with momentum alone");
  const double decay = fragment.group.weight_decay.value_or(options_.weight_decay);
  const Numbers numbers{.gradient_scale = step.gradient_scale,
                        .weight_decay = static_cast<float>(decay),
                        .momentum = static_cast<float>(options_.momentum),
                        .lr = static_cast<float>(step.lr * fragment.group.lr_scale)};
  const Arrays arrays{.values = fragment.values,
                      .gradient = fragment.gradient,
                      .buffer = has_buffer ? fragment.state[0] : nullptr,
                      .length = fragment.length};
  const FlushSubnormals flush;
  switch (set_) {
    case Instructions::avx512: return update_avx512(arrays, numbers);
    case Instructions::avx2: return update_avx2(arrays, numbers);
    case Instructions::scalar: return update_scalar(arrays, numbers, 0);
  }
}

}  // namespace reshard::optim
