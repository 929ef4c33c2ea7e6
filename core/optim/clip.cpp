#include "optim/clip.h"

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"

namespace reshard::optim {
namespace {

constexpr int64_t kBlock = NormSum::kBlock;
static_assert(kBlock % 16 == 0, "the loops below take 8 elements at a time, and a cache line is 16");
constexpr int64_t kBatch = 32;  // blocks whose sums wait on the stack for the exact addition
constexpr int kLowestExponent = -298;

// Asking two KiB ahead gains a fifth beyond the caches; past the end too, because a prefetch never faults.
constexpr int64_t kFloatsAhead = 512;

inline void prefetch(const float* block) {
  for (int64_t i = 0; i < kBlock; i += 16) __builtin_prefetch(block + i + kFloatsAhead);
}

// The order of one block's sum, which all three functions share: lane j adds the squares of elements j, j + 8, …, j +
// 56 in turn; then lanes 4 apart are added, 2 apart, 1 apart. A square is exact in fp64, so a fused multiply-add rounds
// as the two operations do.
void block_sums_scalar(const float* x, int64_t blocks, double* sums) {
  for (int64_t b = 0; b < blocks; ++b, x += kBlock) {
    double lane[8] = {};
    for (int64_t i = 0; i < kBlock; ++i) lane[i % 8] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    for (int apart = 4; apart > 0; apart /= 2)
      for (int j = 0; j < apart; ++j) lane[j] += lane[j + apart];
    sums[b] = lane[0];
  }
}

__attribute__((target("avx2"))) inline double sum_four(__m256d lanes) {
  const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(lanes), _mm256_extractf128_pd(lanes, 1));
  return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

__attribute__((target("avx2,fma"))) void block_sums_avx2(const float* x, int64_t blocks, double* sums) {
  for (int64_t b = 0; b < blocks; ++b, x += kBlock) {
    prefetch(x);
    __m256d low = _mm256_setzero_pd(), high = _mm256_setzero_pd();
    for (int64_t i = 0; i < kBlock; i += 8) {
      const __m256d first = _mm256_cvtps_pd(_mm_loadu_ps(x + i));
      const __m256d second = _mm256_cvtps_pd(_mm_loadu_ps(x + i + 4));
      low = _mm256_fmadd_pd(first, first, low);
      high = _mm256_fmadd_pd(second, second, high);
    }
    sums[b] = sum_four(_mm256_add_pd(low, high));
  }
}

__attribute__((target("avx512f,avx2"))) void block_sums_avx512(const float* x, int64_t blocks, double* sums) {
  for (int64_t b = 0; b < blocks; ++b, x += kBlock) {
    prefetch(x);
    __m512d lanes = _mm512_setzero_pd();
    for (int64_t i = 0; i < kBlock; i += 8) {
      const __m512d eight = _mm512_cvtps_pd(_mm256_loadu_ps(x + i));
      lanes = _mm512_fmadd_pd(eight, eight, lanes);
    }
    sums[b] = sum_four(_mm256_add_pd(_mm512_castpd512_pd256(lanes), _mm512_extractf64x4_pd(lanes, 1)));
  }
}

void block_sums(const float* x, int64_t blocks, double* sums, Instructions set) {
  switch (set) {
    case Instructions::avx512: return block_sums_avx512(x, blocks, sums);
    case Instructions::avx2: return block_sums_avx2(x, blocks, sums);
    case Instructions::scalar: return block_sums_scalar(x, blocks, sums);
  }
}

}  // namespace

void NormSum::add(std::span<const float> gradient, Instructions set) {
  double sums[kBatch];
  const float* x = gradient.data();
  int64_t blocks = static_cast<int64_t>(gradient.size()) / kBlock;
  while (blocks > 0) {
    const int64_t batch = std::min(blocks, kBatch);
    block_sums(x, batch, sums, set);
    for (int64_t b = 0; b < batch; ++b) add_block(sums[b]);
    x += batch * kBlock;
    blocks -= batch;
  }
  const auto rest = gradient.last(gradient.size() % kBlock);
  if (rest.empty()) return;
  float block[kBlock] = {};
  std::copy(rest.begin(), rest.end(), block);
  block_sums(block, 1, sums, set);
  add_block(sums[0]);
}

void NormSum::add_block(double sum) {
  const uint64_t bits = std::bit_cast<uint64_t>(sum);  // the sign is 0, or that of a NaN
  const int exponent = static_cast<int>(bits >> 52 & 0x7FF);
  uint64_t mantissa = bits & ((uint64_t{1} << 52) - 1);
  if (exponent == 0x7FF) {
    ++(mantissa != 0 ? nan_blocks_ : infinite_blocks_);
    return;
  }
  if (exponent == 0) return;  // zero: the smallest square is far above fp64's subnormal numbers
  mantissa |= uint64_t{1} << 52;
  int place = exponent - 1023 - 52 - kLowestExponent;  // of the mantissa's last bit
  if (place < 0) {
    mantissa >>= -place;  // drops zeros only, because the sum is a multiple of 2^-298
    place = 0;
  }
  const size_t limb = static_cast<size_t>(place) / 32;
  const int shift = place % 32;
  const uint64_t low = (mantissa & 0xFFFFFFFF) << shift, high = (mantissa >> 32) << shift;  // high < 2^52
  const uint64_t middle = (low >> 32) + (high & 0xFFFFFFFF);
  limbs_[limb] += static_cast<int64_t>(low & 0xFFFFFFFF);
  limbs_[limb + 1] += static_cast<int64_t>(middle);
  limbs_[limb + 2] += static_cast<int64_t>(high >> 32);
  if (++pending_ == int64_t{1} << 29) carry();
}

void NormSum::carry() {
  for (size_t i = 0; i + 1 < limbs_.size(); ++i) {
    limbs_[i + 1] += limbs_[i] >> 32;
    limbs_[i] &= 0xFFFFFFFF;
  }
  pending_ = 0;
}

void NormSum::merge(const NormSum& other) {
  NormSum carried = other;
  carried.carry();
  carry();
  for (size_t i = 0; i < limbs_.size(); ++i) limbs_[i] += carried.limbs_[i];
  nan_blocks_ += carried.nan_blocks_;
  infinite_blocks_ += carried.infinite_blocks_;
  pending_ = 1;
}

double NormSum::squared_norm() const {
  if (nan_blocks_ != 0) return std::nan("");
  if (infinite_blocks_ != 0) return HUGE_VAL;
  NormSum sum = *this;
  sum.carry();
  // The highest 64 bits, then one bit that says whether anything lies below them: what rounding to nearest needs.
  int top = kLimbs - 1;
  while (top > 0 && sum.limbs_[static_cast<size_t>(top)] == 0) --top;
  uint64_t bits = static_cast<uint64_t>(sum.limbs_[static_cast<size_t>(top)]);
  if (bits == 0) return 0.0;
  int place = 32 * top;
  uint64_t below = 0;
  for (int i = top - 1; i >= 0; --i) {
    const uint64_t limb = static_cast<uint64_t>(sum.limbs_[static_cast<size_t>(i)]);
    const int room = std::min(32, std::countl_zero(bits));
    bits = room == 0 ? bits : bits << room | limb >> (32 - room);
    below |= room == 32 ? 0 : limb & ((uint64_t{1} << (32 - room)) - 1);
    place -= room;
  }
  bits |= below != 0 ? 1 : 0;
  return std::ldexp(static_cast<double>(bits), place + kLowestExponent);
}

double NormSum::norm() const {
  return std::sqrt(squared_norm());
}

double larger(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? std::nan("") : std::max(a, b);
}

double largest_magnitude(std::span<const float> gradient) {
  // Without its sign bit a float is ordered as an integer, NaNs above infinity: so no comparison is lost to a NaN.
  uint32_t largest = 0;
  for (const float value : gradient) largest = std::max(largest, std::bit_cast<uint32_t>(value) & 0x7FFFFFFFU);
  return static_cast<double>(std::bit_cast<float>(largest));
}

float clip_factor(double norm, double clip_norm) {
  RESHARD_CHECK(clip_norm >= 0 && std::isfinite(norm), "the runtime looks for NaN and infinity before it clips");
  if (clip_norm == 0) return 1.0F;
  return static_cast<float>(std::min(1.0, clip_norm / (norm + 1e-6)));
}

}  // namespace reshard::optim
