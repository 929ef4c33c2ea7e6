#pragma once

// Random numbers by counter: each is a pure function of (seed, stream, index), so any rank can make any one of them, in
// any order. Thread rules: pure functions.

#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>

namespace gpt {

// 64 well mixed bits (the finishing steps of splitmix64).
constexpr uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

constexpr uint64_t random_bits(uint64_t seed, uint64_t stream, uint64_t index) {
  return mix(mix(mix(seed) ^ stream) ^ index);
}

// A stream of its own for each name (FNV-1a).
constexpr uint64_t stream_of(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

// Uniform in (0, 1).
constexpr double random_uniform(uint64_t bits) {
  return (static_cast<double>(bits >> 12U) + 0.5) * 0x1p-52;
}

// Standard normal (Box and Muller; one of the pair is used).
inline double random_normal(uint64_t seed, uint64_t stream, uint64_t index) {
  const double radius = std::sqrt(-2.0 * std::log(random_uniform(random_bits(seed, stream, 2 * index))));
  return radius * std::cos(2.0 * std::numbers::pi * random_uniform(random_bits(seed, stream, 2 * index + 1)));
}

}  // namespace gpt
