#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "device/device.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace reshard::device {
namespace {

constexpr size_t kLine = 64;

#if defined(__SSE2__)

// Four stores fill one cache line, which then leaves for memory in one piece; wider stores measured no faster.
void stream_line(std::byte* destination, const std::byte* source) {
  const auto* from = reinterpret_cast<const __m128i*>(source);
  auto* to = reinterpret_cast<__m128i*>(destination);
  const __m128i a = _mm_loadu_si128(from), b = _mm_loadu_si128(from + 1);
  const __m128i c = _mm_loadu_si128(from + 2), d = _mm_loadu_si128(from + 3);
  _mm_stream_si128(to, a);
  _mm_stream_si128(to + 1, b);
  _mm_stream_si128(to + 2, c);
  _mm_stream_si128(to + 3, d);
}

// Several pages side by side: the hardware fetches ahead within a page only, so one page after the other starts anew 16
// times in 64 KiB; four at a time measured up to twice as fast.
void stream_lines(std::byte* destination, const std::byte* source, size_t lines) {
  constexpr size_t kPage = 4096, kPages = 4, kBlock = kPage * kPages;
  const size_t bytes = lines * kLine, blocks = bytes / kBlock * kBlock;
  for (size_t block = 0; block < blocks; block += kBlock) {
    for (size_t line = 0; line < kPage; line += kLine) {
      for (size_t page = 0; page < kBlock; page += kPage) {
        const size_t at = block + page + line;
        stream_line(destination + at, source + at);
      }
    }
  }
  for (size_t at = blocks; at < bytes; at += kLine) stream_line(destination + at, source + at);
  order_streaming_stores();
}

void stream_zero_lines(std::byte* destination, size_t lines) {
  const __m128i zero = _mm_setzero_si128();
  for (size_t i = 0; i < lines; ++i, destination += kLine) {
    auto* to = reinterpret_cast<__m128i*>(destination);
    _mm_stream_si128(to, zero);
    _mm_stream_si128(to + 1, zero);
    _mm_stream_si128(to + 2, zero);
    _mm_stream_si128(to + 3, zero);
  }
  order_streaming_stores();
}

#else  // without streaming stores

void stream_lines(std::byte* destination, const std::byte* source, size_t lines) {
  std::memcpy(destination, source, lines * kLine);
}

void stream_zero_lines(std::byte* destination, size_t lines) {
  std::memset(destination, 0, lines * kLine);
}

#endif

// Bytes before the first cache line that starts in the range.
size_t head_bytes(const void* address, size_t bytes) {
  const size_t past = reinterpret_cast<uintptr_t>(address) % kLine;
  return past == 0 ? 0 : std::min(bytes, kLine - past);
}

size_t last_level_cache_bytes() {
  const long bytes = std::max(sysconf(_SC_LEVEL3_CACHE_SIZE), sysconf(_SC_LEVEL2_CACHE_SIZE));
  return bytes > 0 ? static_cast<size_t>(bytes) : size_t{8} << 20;
}

}  // namespace

void copy_bytes(void* destination, const void* source, size_t bytes, Store store) {
  if (bytes == 0) return;
  if (store == Store::kCached || bytes < 4 * kLine) {
    std::memcpy(destination, source, bytes);
    return;
  }
  auto* to = static_cast<std::byte*>(destination);
  const auto* from = static_cast<const std::byte*>(source);
  const size_t head = head_bytes(to, bytes);
  if (head != 0) std::memcpy(to, from, head);
  const size_t lines = (bytes - head) / kLine;
  stream_lines(to + head, from + head, lines);
  const size_t done = head + lines * kLine;
  if (done != bytes) std::memcpy(to + done, from + done, bytes - done);
}

void zero_bytes(void* destination, size_t bytes) {
  if (bytes == 0) return;
  if (bytes < streaming_bytes()) {
    std::memset(destination, 0, bytes);
    return;
  }
  auto* to = static_cast<std::byte*>(destination);
  const size_t head = head_bytes(to, bytes);
  std::memset(to, 0, head);
  const size_t lines = (bytes - head) / kLine;
  stream_zero_lines(to + head, lines);
  const size_t done = head + lines * kLine;
  std::memset(to + done, 0, bytes - done);
}

void order_streaming_stores() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

size_t streaming_bytes() {
  static const size_t bytes = last_level_cache_bytes() / 4;
  return bytes;
}

}  // namespace reshard::device
