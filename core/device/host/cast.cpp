#include <type_traits>

#include "device/device.h"

namespace reshard::device {
namespace {

// Plain loops over Bf16's own conversions, which the compiler vectorises for each instruction set. The processor's
// bf16 instructions are not used: they take subnormal numbers as zero.

template <class From, class To>
[[gnu::always_inline]] inline void convert_all(const From* __restrict from, To* __restrict to, size_t count) {
  for (size_t i = 0; i < count; ++i) to[i] = To(from[i]);
}

template <class From>
[[gnu::always_inline]] inline void add_all(const From* __restrict from, float* __restrict to, size_t count) {
  for (size_t i = 0; i < count; ++i) to[i] += static_cast<float>(from[i]);
}

template <class From, class To>
struct Scalar {
  static void convert(const From* from, To* to, size_t count) { convert_all(from, to, count); }
  static void add(const From* from, float* to, size_t count) { add_all(from, to, count); }
};

#if defined(__x86_64__)

template <class From, class To>
struct Avx2 {
  [[gnu::target("avx2")]] static void convert(const From* from, To* to, size_t count) { convert_all(from, to, count); }
  [[gnu::target("avx2")]] static void add(const From* from, float* to, size_t count) { add_all(from, to, count); }
};

template <class From, class To>
struct Avx512 {
  [[gnu::target("avx512f")]] static void convert(const From* from, To* to, size_t count) {
    convert_all(from, to, count);
  }
  [[gnu::target("avx512f")]] static void add(const From* from, float* to, size_t count) { add_all(from, to, count); }
};

// Calls work(Set()), Set being one of the above.
template <class From, class To, class Work>
void with(Instructions set, const Work& work) {
  if (set == Instructions::avx512) return work(Avx512<From, To>());
  if (set == Instructions::avx2) return work(Avx2<From, To>());
  work(Scalar<From, To>());
}

#else

template <class From, class To, class Work>
void with(Instructions, const Work& work) {
  work(Scalar<From, To>());
}

#endif

}  // namespace

void convert(const float* from, Bf16* to, size_t count, Instructions set) {
  with<float, Bf16>(set, [=]<class Set>(Set) { Set::convert(from, to, count); });
}

void convert(const Bf16* from, float* to, size_t count, Instructions set) {
  with<Bf16, float>(set, [=]<class Set>(Set) { Set::convert(from, to, count); });
}

void add(const Bf16* from, float* to, size_t count, Instructions set) {
  with<Bf16, float>(set, [=]<class Set>(Set) { Set::add(from, to, count); });
}

void add(const float* from, float* to, size_t count, Instructions set) {
  with<float, float>(set, [=]<class Set>(Set) { Set::add(from, to, count); });
}

}  // namespace reshard::device
