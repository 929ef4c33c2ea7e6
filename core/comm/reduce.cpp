#include "comm/reduce.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace reshard::comm {
namespace {

// The kernels are plain loops that the compiler vectorises. They are inlined into one set of functions per pair of
// formats and instruction set, and the set is chosen at run time. Sums are kept as fp32 values that the output's format
// can hold.

constexpr size_t kLineBytes = 64, kPageBytes = 4096;
constexpr size_t kBlock = 1024;  // values of one step: all its rows stay in the first cache
constexpr size_t kPages = 4;     // of one step that stores past the caches

constexpr int kRows = 8;  // that are added in one step

template <class Value>
constexpr size_t kLine = kLineBytes / sizeof(Value);
// Values in a page of the narrower of two formats, so that neither is walked by less than a page at a time.
template <class In, class Out>
constexpr size_t kPage = kPageBytes / std::min(sizeof(In), sizeof(Out));

// The bits of the nearest bf16, in the upper half: what Bf16's constructor does, in steps that a compiler vectorises.
[[gnu::always_inline]] inline uint32_t upper_half(float value) {
  const auto full = std::bit_cast<uint32_t>(value);
  const uint32_t nearest = full + 0x7FFFU + ((full >> 16U) & 1U), quiet = full | 0x400000U;
  return value == value ? nearest : quiet;
}

// The nearest value that the format has.
template <class Format>
[[gnu::always_inline]] inline float rounded(float value) {
  if constexpr (std::is_same_v<Format, Bf16>) {
    return std::bit_cast<float>(upper_half(value) & 0xFFFF0000U);
  } else {
    return value;
  }
}

// A value that the format has, in it.
template <class Format>
[[gnu::always_inline]] inline Format stored(float value) {
  if constexpr (std::is_same_v<Format, Bf16>) {
    Bf16 half;
    half.bits = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16U);
    return half;
  } else {
    return value;
  }
}

template <class Out, class In>
[[gnu::always_inline]] inline float term(In value) {
  if constexpr (std::is_same_v<In, Bf16>) {
    return static_cast<float>(value);
  } else {
    return rounded<Out>(value);
  }
}

// Pairs of neighbours bottom up, an odd one passing up: the same as splitting at the largest power of two below the
// count.
template <class Out, int kBegin, int kCount, class In>
[[gnu::always_inline]] inline float tree(const In* const* rows, size_t i) {
  if constexpr (kCount == 1) {
    return term<Out>(rows[kBegin][i]);
  } else {
    constexpr int kLeft = static_cast<int>(std::bit_floor(static_cast<unsigned>(kCount - 1)));
    return rounded<Out>(tree<Out, kBegin, kLeft>(rows, i) + tree<Out, kBegin + kLeft, kCount - kLeft>(rows, i));
  }
}

template <class In, int kCount>
struct Rows {
  [[gnu::always_inline]] Rows(const void* const* inputs, size_t at) {
    for (int r = 0; r < kCount; ++r) from[r] = static_cast<const In*>(inputs[r]) + at;
  }
  const In* from[kCount];
};

template <class In, class Out, int kCount>
[[gnu::always_inline]] inline void add_rows(const void* const* inputs, size_t at, size_t count, float* __restrict sum) {
  const Rows<In, kCount> rows(inputs, at);
  for (size_t i = 0; i < count; ++i) sum[i] = tree<Out, 0, kCount>(rows.from, i);
}

// sum[i] = tree sum of inputs[0 … rows - 1][at + i], 1 <= rows <= kRows.
template <class In, class Out>
[[gnu::always_inline]] inline void add_any_rows(const void* const* inputs, int rows, size_t at, size_t count,
                                                float* sum) {
  switch (rows) {
    case 1: return add_rows<In, Out, 1>(inputs, at, count, sum);
    case 2: return add_rows<In, Out, 2>(inputs, at, count, sum);
    case 3: return add_rows<In, Out, 3>(inputs, at, count, sum);
    case 4: return add_rows<In, Out, 4>(inputs, at, count, sum);
    case 5: return add_rows<In, Out, 5>(inputs, at, count, sum);
    case 6: return add_rows<In, Out, 6>(inputs, at, count, sum);
    case 7: return add_rows<In, Out, 7>(inputs, at, count, sum);
    default: return add_rows<In, Out, 8>(inputs, at, count, sum);
  }
}

// sum[i] = left[i] + right[i], two sums of some rows each.
template <class Out>
[[gnu::always_inline]] inline void join_sums(const float* __restrict left, const float* __restrict right, size_t count,
                                             float* __restrict sum) {
  for (size_t i = 0; i < count; ++i) sum[i] = rounded<Out>(left[i] + right[i]);
}

template <class Out>
[[gnu::always_inline]] inline void finish_sums(float* __restrict sum, size_t count, const ReduceOptions& options,
                                               Out* __restrict output) {
  const float scale = options.scale;
  if (options.add_to_output) {
    for (size_t i = 0; i < count; ++i) sum[i] = rounded<Out>(static_cast<float>(output[i]) + sum[i]);
  }
  if (scale != 1.0F) {
    for (size_t i = 0; i < count; ++i) sum[i] = rounded<Out>(sum[i] * scale);
  }
  for (size_t i = 0; i < count; ++i) output[i] = stored<Out>(sum[i]);
}

#if defined(__x86_64__)
template <class Out>
[[gnu::always_inline]] inline void stream_line(Out* to, const Out* line) {
  const auto* from = reinterpret_cast<const __m128i*>(line);
  auto* place = reinterpret_cast<__m128i*>(to);
  for (int i = 0; i < 4; ++i) _mm_stream_si128(place + i, _mm_loadu_si128(from + i));
}
#else
template <class Out>
[[gnu::always_inline]] inline void stream_line(Out* to, const Out* line) {
  std::copy_n(line, kLine<Out>, to);
}
#endif

// Some pages of output = tree sum * scale, past the caches, the pages side by side as in device::copy_bytes.
// Multiplying by a scale of 1 changes no value.
template <class In, class Out, int kCount>
[[gnu::always_inline]] inline void stream_rows(const void* const* inputs, size_t at, Out* output, float scale) {
  const Rows<In, kCount> rows(inputs, at);
  for (size_t i = 0; i < kPage<In, Out>; i += kLine<Out>) {
    for (size_t page = 0; page < kPages * kPage<In, Out>; page += kPage<In, Out>) {
      Out line[kLine<Out>];
      for (size_t j = 0; j < kLine<Out>; ++j) {
        line[j] = stored<Out>(rounded<Out>(tree<Out, 0, kCount>(rows.from, page + i + j) * scale));
      }
      stream_line(output + page + i, line);
    }
  }
}

template <class In, class Out>
[[gnu::always_inline]] inline void stream_any_rows(const void* const* inputs, int rows, size_t at, Out* output,
                                                   float scale) {
  switch (rows) {
    case 1: return stream_rows<In, Out, 1>(inputs, at, output, scale);
    case 2: return stream_rows<In, Out, 2>(inputs, at, output, scale);
    case 3: return stream_rows<In, Out, 3>(inputs, at, output, scale);
    case 4: return stream_rows<In, Out, 4>(inputs, at, output, scale);
    case 5: return stream_rows<In, Out, 5>(inputs, at, output, scale);
    case 6: return stream_rows<In, Out, 6>(inputs, at, output, scale);
    case 7: return stream_rows<In, Out, 7>(inputs, at, output, scale);
    default: return stream_rows<In, Out, 8>(inputs, at, output, scale);
  }
}

// The same four functions for each instruction set.
template <class In, class Out>
struct Kernels {
  void (*add)(const void* const* inputs, int rows, size_t at, size_t count, float* sum);
  void (*join)(const float* left, const float* right, size_t count, float* sum);
  void (*finish)(float* sum, size_t count, const ReduceOptions& options, Out* output);
  void (*stream)(const void* const* inputs, int rows, size_t at, Out* output, float scale);
};

template <class In, class Out>
struct Scalar {
  static void add(const void* const* inputs, int rows, size_t at, size_t count, float* sum) {
    add_any_rows<In, Out>(inputs, rows, at, count, sum);
  }
  static void join(const float* left, const float* right, size_t count, float* sum) {
    join_sums<Out>(left, right, count, sum);
  }
  static void finish(float* sum, size_t count, const ReduceOptions& options, Out* output) {
    finish_sums<Out>(sum, count, options, output);
  }
  static void stream(const void* const* inputs, int rows, size_t at, Out* output, float scale) {
    stream_any_rows<In, Out>(inputs, rows, at, output, scale);
  }
};

#if defined(__x86_64__)

template <class In, class Out>
struct Avx2 {
  [[gnu::target("avx2")]] static void add(const void* const* inputs, int rows, size_t at, size_t count, float* sum) {
    add_any_rows<In, Out>(inputs, rows, at, count, sum);
  }
  [[gnu::target("avx2")]] static void join(const float* left, const float* right, size_t count, float* sum) {
    join_sums<Out>(left, right, count, sum);
  }
  [[gnu::target("avx2")]] static void finish(float* sum, size_t count, const ReduceOptions& options, Out* output) {
    finish_sums<Out>(sum, count, options, output);
  }
  [[gnu::target("avx2")]] static void stream(const void* const* inputs, int rows, size_t at, Out* output, float scale) {
    stream_any_rows<In, Out>(inputs, rows, at, output, scale);
  }
};

template <class In, class Out>
struct Avx512 {
  [[gnu::target("avx512f")]] static void add(const void* const* inputs, int rows, size_t at, size_t count, float* sum) {
    add_any_rows<In, Out>(inputs, rows, at, count, sum);
  }
  [[gnu::target("avx512f")]] static void join(const float* left, const float* right, size_t count, float* sum) {
    join_sums<Out>(left, right, count, sum);
  }
  [[gnu::target("avx512f")]] static void finish(float* sum, size_t count, const ReduceOptions& options, Out* output) {
    finish_sums<Out>(sum, count, options, output);
  }
  [[gnu::target("avx512f")]] static void stream(const void* const* inputs, int rows, size_t at, Out* output,
                                                float scale) {
    stream_any_rows<In, Out>(inputs, rows, at, output, scale);
  }
};

#endif

template <class In, class Out>
Kernels<In, Out> kernels_for(device::Instructions set) {
  const auto all = []<class Set>(Set) { return Kernels<In, Out>{Set::add, Set::join, Set::finish, Set::stream}; };
#if defined(__x86_64__)
  if (set == device::Instructions::avx512) return all(Avx512<In, Out>());
  if (set == device::Instructions::avx2) return all(Avx2<In, Out>());
#endif
  return all(Scalar<In, Out>());
}

// More rows than one step takes are split as the tree splits them.
template <class In, class Out>
void add_block(const Kernels<In, Out>& kernels, const void* const* inputs, int rows, size_t at, size_t count,
               float* sum) {
  if (rows <= kRows) return kernels.add(inputs, rows, at, count, sum);
  const int left = static_cast<int>(std::bit_floor(static_cast<unsigned>(rows - 1)));
  alignas(64) float halves[2][kBlock];
  add_block(kernels, inputs, left, at, count, halves[0]);
  add_block(kernels, inputs + left, rows - left, at, count, halves[1]);
  kernels.join(halves[0], halves[1], count, sum);
}

// The elements from `begin` to `end`, by way of a block that stays in the first cache.
template <class In, class Out>
void reduce_cached(const Kernels<In, Out>& kernels, const Reduction& reduction, size_t begin, size_t end) {
  alignas(64) float sum[kBlock];
  for (size_t at = begin; at < end; at += kBlock) {
    const size_t count = std::min(kBlock, end - at);
    add_block(kernels, reduction.inputs, reduction.ranks, at, count, sum);
    kernels.finish(sum, count, reduction.options, static_cast<Out*>(reduction.output) + at);
  }
}

template <class In, class Out>
void reduce(const Reduction& reduction) {
  const Kernels<In, Out> kernels = kernels_for<In, Out>(reduction.instructions);
  const size_t count = reduction.count;
  size_t done = 0;
  if (reduction.store == device::Store::kStreaming && !reduction.options.add_to_output && reduction.ranks <= kRows) {
    auto* output = static_cast<Out*>(reduction.output);
    const size_t past = reinterpret_cast<uintptr_t>(output) / sizeof(Out) % kLine<Out>;
    const size_t head = past == 0 ? 0 : std::min(count, kLine<Out> - past);
    reduce_cached(kernels, reduction, 0, head);
    constexpr size_t kStreamed = kPages * kPage<In, Out>;
    for (done = head; done + kStreamed <= count; done += kStreamed) {
      kernels.stream(reduction.inputs, reduction.ranks, done, output + done, reduction.options.scale);
    }
    device::order_streaming_stores();
  }
  reduce_cached(kernels, reduction, done, count);
}

}  // namespace

void tree_sum(const Reduction& reduction) {
  const bool from_bf16 = reduction.input_dtype == Dtype::bf16;
  if (reduction.output_dtype == Dtype::bf16) {
    from_bf16 ? reduce<Bf16, Bf16>(reduction) : reduce<float, Bf16>(reduction);
  } else {
    from_bf16 ? reduce<Bf16, float>(reduction) : reduce<float, float>(reduction);
  }
}

}  // namespace reshard::comm
