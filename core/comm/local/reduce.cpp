#include "comm/local/reduce.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace reshard::comm {
namespace {

// The kernels are plain loops that the compiler vectorises. They are inlined into one pair of functions per instruction
// set, and the pair is chosen at run time.

// In floats.
constexpr size_t kLine = 16, kPage = 1024;
constexpr size_t kBlock = kPage;         // of one step: all its rows stay in the first cache
constexpr size_t kStreamed = 4 * kPage;  // of one step that stores past the caches

constexpr int kRows = 8;  // that are added in one step

// Pairs of neighbours bottom up, an odd one passing up: the same as splitting at the largest power of two below the
// count.
template <int kBegin, int kCount>
[[gnu::always_inline]] inline float tree(const float* const* rows, size_t i) {
  if constexpr (kCount == 1) {
    return rows[kBegin][i];
  } else {
    constexpr int kLeft = static_cast<int>(std::bit_floor(static_cast<unsigned>(kCount - 1)));
    return tree<kBegin, kLeft>(rows, i) + tree<kBegin + kLeft, kCount - kLeft>(rows, i);
  }
}

template <int kCount>
[[gnu::always_inline]] inline void add_rows(const float* const* inputs, size_t at, size_t count,
                                            float* __restrict sum) {
  const float* rows[kCount];
  for (int r = 0; r < kCount; ++r) rows[r] = inputs[r] + at;
  for (size_t i = 0; i < count; ++i) sum[i] = tree<0, kCount>(rows, i);
}

// sum[i] = tree sum of inputs[0 … rows - 1][at + i], 1 <= rows <= kRows.
[[gnu::always_inline]] inline void add_any_rows(const float* const* inputs, int rows, size_t at, size_t count,
                                                float* sum) {
  switch (rows) {
    case 1: return add_rows<1>(inputs, at, count, sum);
    case 2: return add_rows<2>(inputs, at, count, sum);
    case 3: return add_rows<3>(inputs, at, count, sum);
    case 4: return add_rows<4>(inputs, at, count, sum);
    case 5: return add_rows<5>(inputs, at, count, sum);
    case 6: return add_rows<6>(inputs, at, count, sum);
    case 7: return add_rows<7>(inputs, at, count, sum);
    default: return add_rows<8>(inputs, at, count, sum);
  }
}

[[gnu::always_inline]] inline void finish(float* __restrict sum, const float* __restrict output, size_t count,
                                          const ReduceOptions& options) {
  const float scale = options.scale;
  if (options.add_to_output) {
    for (size_t i = 0; i < count; ++i) sum[i] = output[i] + sum[i];
  }
  if (scale != 1.0F) {
    for (size_t i = 0; i < count; ++i) sum[i] *= scale;
  }
}

#if defined(__x86_64__)
[[gnu::always_inline]] inline void stream_line(float* to, const float* line) {
  for (size_t i = 0; i < kLine; i += 4) _mm_stream_ps(to + i, _mm_loadu_ps(line + i));
}
#else
[[gnu::always_inline]] inline void stream_line(float* to, const float* line) {
  std::copy_n(line, kLine, to);
}
#endif

// One block of output = tree sum * scale, past the caches, its pages side by side as in device::copy_bytes. Multiplying
// by a scale of 1 changes no bit.
template <int kCount>
[[gnu::always_inline]] inline void stream_rows(const float* const* inputs, size_t at, float* output, float scale) {
  const float* rows[kCount];
  for (int r = 0; r < kCount; ++r) rows[r] = inputs[r] + at;
  for (size_t i = 0; i < kPage; i += kLine) {
    for (size_t page = 0; page < kStreamed; page += kPage) {
      float line[kLine];
      for (size_t j = 0; j < kLine; ++j) line[j] = tree<0, kCount>(rows, page + i + j) * scale;
      stream_line(output + page + i, line);
    }
  }
}

[[gnu::always_inline]] inline void stream_any_rows(const float* const* inputs, int rows, size_t at, float* output,
                                                   float scale) {
  switch (rows) {
    case 1: return stream_rows<1>(inputs, at, output, scale);
    case 2: return stream_rows<2>(inputs, at, output, scale);
    case 3: return stream_rows<3>(inputs, at, output, scale);
    case 4: return stream_rows<4>(inputs, at, output, scale);
    case 5: return stream_rows<5>(inputs, at, output, scale);
    case 6: return stream_rows<6>(inputs, at, output, scale);
    case 7: return stream_rows<7>(inputs, at, output, scale);
    default: return stream_rows<8>(inputs, at, output, scale);
  }
}

// The same three functions for each instruction set.
struct Kernels {
  void (*add)(const float* const* inputs, int rows, size_t at, size_t count, float* sum);
  void (*finish)(float* sum, const float* output, size_t count, const ReduceOptions& options);
  void (*stream)(const float* const* inputs, int rows, size_t at, float* output, float scale);
};

void add_base(const float* const* inputs, int rows, size_t at, size_t count, float* sum) {
  add_any_rows(inputs, rows, at, count, sum);
}

void finish_base(float* sum, const float* output, size_t count, const ReduceOptions& options) {
  finish(sum, output, count, options);
}

void stream_base(const float* const* inputs, int rows, size_t at, float* output, float scale) {
  stream_any_rows(inputs, rows, at, output, scale);
}

#if defined(__x86_64__)

[[gnu::target("avx2")]] void add_avx2(const float* const* inputs, int rows, size_t at, size_t count, float* sum) {
  add_any_rows(inputs, rows, at, count, sum);
}

[[gnu::target("avx2")]] void finish_avx2(float* sum, const float* output, size_t count, const ReduceOptions& options) {
  finish(sum, output, count, options);
}

[[gnu::target("avx2")]] void stream_avx2(const float* const* inputs, int rows, size_t at, float* output, float scale) {
  stream_any_rows(inputs, rows, at, output, scale);
}

[[gnu::target("avx512f")]] void add_avx512(const float* const* inputs, int rows, size_t at, size_t count, float* sum) {
  add_any_rows(inputs, rows, at, count, sum);
}

[[gnu::target("avx512f")]] void finish_avx512(float* sum, const float* output, size_t count,
                                              const ReduceOptions& options) {
  finish(sum, output, count, options);
}

[[gnu::target("avx512f")]] void stream_avx512(const float* const* inputs, int rows, size_t at, float* output,
                                              float scale) {
  stream_any_rows(inputs, rows, at, output, scale);
}

#endif

Kernels choose_kernels() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return {add_avx512, finish_avx512, stream_avx512};
  if (__builtin_cpu_supports("avx2")) return {add_avx2, finish_avx2, stream_avx2};
#endif
  return {add_base, finish_base, stream_base};
}

// More rows than one step takes are split as the tree splits them.
void add_block(const Kernels& kernels, const float* const* inputs, int rows, size_t at, size_t count, float* sum) {
  if (rows <= kRows) return kernels.add(inputs, rows, at, count, sum);
  const int left = static_cast<int>(std::bit_floor(static_cast<unsigned>(rows - 1)));
  alignas(64) float halves[2][kBlock];
  add_block(kernels, inputs, left, at, count, halves[0]);
  add_block(kernels, inputs + left, rows - left, at, count, halves[1]);
  const float* const both[2] = {halves[0], halves[1]};
  kernels.add(both, 2, 0, count, sum);
}

// The reduction of the elements from `begin` to `end`, by way of a block that stays in the first cache.
void reduce_cached(const Kernels& kernels, const float* const* inputs, int rows, size_t begin, size_t end,
                   float* output, const ReduceOptions& options) {
  alignas(64) float sum[kBlock];
  for (size_t at = begin; at < end; at += kBlock) {
    const size_t count = std::min(kBlock, end - at);
    add_block(kernels, inputs, rows, at, count, sum);
    kernels.finish(sum, output + at, count, options);
    std::copy_n(sum, count, output + at);
  }
}

}  // namespace

void tree_sum(const float* const* inputs, int ranks, size_t count, float* output, const ReduceOptions& options,
              device::Store store) {
  static const Kernels kernels = choose_kernels();
  size_t done = 0;
  if (store == device::Store::kStreaming && !options.add_to_output && ranks <= kRows) {
    const size_t past = reinterpret_cast<uintptr_t>(output) / sizeof(float) % kLine;
    const size_t head = past == 0 ? 0 : std::min(count, kLine - past);
    reduce_cached(kernels, inputs, ranks, 0, head, output, options);
    for (done = head; done + kStreamed <= count; done += kStreamed) {
      kernels.stream(inputs, ranks, done, output + done, options.scale);
    }
    device::order_streaming_stores();
  }
  reduce_cached(kernels, inputs, ranks, done, count, output, options);
}

}  // namespace reshard::comm
