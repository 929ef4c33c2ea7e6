#pragma once

// A few floats in one register, for the widest instruction set that this file is compiled for: 16 with AVX-512, 8 with
// AVX2 and FMA, else 1. Everything is in an unnamed namespace, because the same source is compiled several times with
// different flags (kernels_avx512.cpp, …): no function of one may be taken for another's. For the same reason no header
// with inline functions of the standard library is included here.
//
// Loads and stores ask for the alignment of a float only. `n` of the *_part forms is the number of floats touched,
// 0 <= n <= kLanes; the other lanes read as zero. Thread rules: pure functions.

#include <stdint.h>

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

namespace gpt {
namespace {

#if defined(__AVX512F__)

constexpr int kLanes = 16;
struct Vec {
  __m512 v;
};
inline __mmask16 first_lanes(int n) {
  return static_cast<__mmask16>((1U << n) - 1U);
}
inline Vec load(const float* p) {
  return {_mm512_loadu_ps(p)};
}
inline Vec load_part(const float* p, int n) {
  return {_mm512_maskz_loadu_ps(first_lanes(n), p)};
}
inline void store(float* p, Vec a) {
  _mm512_storeu_ps(p, a.v);
}
inline void store_part(float* p, Vec a, int n) {
  _mm512_mask_storeu_ps(p, first_lanes(n), a.v);
}
inline Vec set(float x) {
  return {_mm512_set1_ps(x)};
}
inline Vec operator+(Vec a, Vec b) {
  return {_mm512_add_ps(a.v, b.v)};
}
inline Vec operator-(Vec a, Vec b) {
  return {_mm512_sub_ps(a.v, b.v)};
}
inline Vec operator*(Vec a, Vec b) {
  return {_mm512_mul_ps(a.v, b.v)};
}
inline Vec operator/(Vec a, Vec b) {
  return {_mm512_div_ps(a.v, b.v)};
}
inline Vec fma(Vec a, Vec b, Vec c) {
  return {_mm512_fmadd_ps(a.v, b.v, c.v)};
}
inline Vec max(Vec a, Vec b) {
  return {_mm512_max_ps(a.v, b.v)};
}
inline Vec min(Vec a, Vec b) {
  return {_mm512_min_ps(a.v, b.v)};
}
inline Vec round(Vec a) {
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
// 2 to the power of n, a whole number from -126 to 127.
inline Vec power_of_two(Vec n) {
  const __m512i exponent = _mm512_add_epi32(_mm512_cvtps_epi32(n.v), _mm512_set1_epi32(127));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(exponent, 23))};
}

#elif defined(__AVX2__) && defined(__FMA__)

constexpr int kLanes = 8;
struct Vec {
  __m256 v;
};
inline __m256i first_lanes(int n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
inline Vec load(const float* p) {
  return {_mm256_loadu_ps(p)};
}
inline Vec load_part(const float* p, int n) {
  return {_mm256_maskload_ps(p, first_lanes(n))};
}
inline void store(float* p, Vec a) {
  _mm256_storeu_ps(p, a.v);
}
inline void store_part(float* p, Vec a, int n) {
  _mm256_maskstore_ps(p, first_lanes(n), a.v);
}
inline Vec set(float x) {
  return {_mm256_set1_ps(x)};
}
inline Vec operator+(Vec a, Vec b) {
  return {_mm256_add_ps(a.v, b.v)};
}
inline Vec operator-(Vec a, Vec b) {
  return {_mm256_sub_ps(a.v, b.v)};
}
inline Vec operator*(Vec a, Vec b) {
  return {_mm256_mul_ps(a.v, b.v)};
}
inline Vec operator/(Vec a, Vec b) {
  return {_mm256_div_ps(a.v, b.v)};
}
inline Vec fma(Vec a, Vec b, Vec c) {
  return {_mm256_fmadd_ps(a.v, b.v, c.v)};
}
inline Vec max(Vec a, Vec b) {
  return {_mm256_max_ps(a.v, b.v)};
}
inline Vec min(Vec a, Vec b) {
  return {_mm256_min_ps(a.v, b.v)};
}
inline Vec round(Vec a) {
  return {_mm256_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
inline Vec power_of_two(Vec n) {
  const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n.v), _mm256_set1_epi32(127));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23))};
}

#else

constexpr int kLanes = 1;
struct Vec {
  float v;
};
inline Vec load(const float* p) {
  return {*p};
}
inline Vec load_part(const float* p, int n) {
  return {n > 0 ? *p : 0.0F};
}
inline void store(float* p, Vec a) {
  *p = a.v;
}
inline void store_part(float* p, Vec a, int n) {
  if (n > 0) *p = a.v;
}
inline Vec set(float x) {
  return {x};
}
inline Vec operator+(Vec a, Vec b) {
  return {a.v + b.v};
}
inline Vec operator-(Vec a, Vec b) {
  return {a.v - b.v};
}
inline Vec operator*(Vec a, Vec b) {
  return {a.v * b.v};
}
inline Vec operator/(Vec a, Vec b) {
  return {a.v / b.v};
}
inline Vec fma(Vec a, Vec b, Vec c) {
  return {a.v * b.v + c.v};
}
inline Vec max(Vec a, Vec b) {
  return {a.v > b.v ? a.v : b.v};
}
inline Vec min(Vec a, Vec b) {
  return {a.v < b.v ? a.v : b.v};
}
inline Vec round(Vec a) {
  return {__builtin_rintf(a.v)};
}
inline Vec power_of_two(Vec n) {
  const int32_t whole = n.v > -127.0F ? static_cast<int32_t>(n.v) : 0;  // a NaN has no whole number
  const uint32_t bits = static_cast<uint32_t>(whole + 127) << 23;
  float result = 0;
  __builtin_memcpy(&result, &bits, sizeof(result));
  return {result};
}

#endif

// The lanes' sum and maximum, halves folded onto each other: one fixed order per instruction set.
inline float sum(Vec a) {
  float lane[kLanes];
  store(lane, a);
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lane[i] += lane[i + half];
  }
  return lane[0];
}
inline float largest(Vec a) {
  float lane[kLanes];
  store(lane, a);
  for (int i = 1; i < kLanes; ++i) lane[0] = lane[i] > lane[0] ? lane[i] : lane[0];
  return lane[0];
}

// e to the power of x, relative error below 2e-7 where the result is a normal number; x is clamped to where it is one;
// a NaN stays a NaN.
inline Vec exp(Vec x) {
  x = min(set(88.0F), max(set(-87.0F), x));   // in this order a NaN stays one
  const Vec n = round(x * set(1.44269504F));  // x = n ln 2 + r, |r| <= 0.35; ln 2 in two parts, so that r is exact
  const Vec r = fma(n, set(2.12194440e-4F), fma(n, set(-0.693359375F), x));
  Vec p = set(1.9875691500e-4F);
  p = fma(p, r, set(1.3981999507e-3F));
  p = fma(p, r, set(8.3334519073e-3F));
  p = fma(p, r, set(4.1665795894e-2F));
  p = fma(p, r, set(1.6666665459e-1F));
  p = fma(p, r, set(5.0000001201e-1F));
  return fma(p, r * r, r + set(1.0F)) * power_of_two(n);
}

}  // namespace
}  // namespace gpt
