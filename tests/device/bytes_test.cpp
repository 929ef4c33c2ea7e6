// copy_bytes and zero_bytes write exactly the bytes asked for, at any alignment, with either kind of store.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "device/device.h"

namespace reshard::device {
namespace {

constexpr size_t kMargin = 64;

TEST(CopyBytes, copies_exactly_the_range) {
  std::mt19937 random(1);
  for (int round = 0; round < 400; ++round) {
    const size_t bytes = round < 300 ? static_cast<size_t>(round) : random() % 40000;
    const size_t from = random() % 70, to = random() % 70;
    std::vector<unsigned char> source(bytes + from), target(bytes + to + 2 * kMargin, 0xee);
    for (auto& byte : source) byte = static_cast<unsigned char>(random() % 200);
    std::vector<unsigned char> wanted = target;
    std::copy(source.begin() + static_cast<long>(from), source.end(), wanted.begin() + static_cast<long>(kMargin + to));
    for (const Store store : {Store::kCached, Store::kStreaming}) {
      std::vector<unsigned char> actual = target;
      copy_bytes(actual.data() + kMargin + to, source.data() + from, bytes, store);
      ASSERT_EQ(actual, wanted) << bytes << " bytes from offset " << from << " to " << to;
    }
  }
}

TEST(ZeroBytes, zeroes_exactly_the_range) {
  const size_t large = streaming_bytes();
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{63}, size_t{64}, size_t{1000}, large - 1, large + 77}) {
    for (const size_t offset : {size_t{0}, size_t{13}}) {
      if (bytes >= large - 1 && offset == 0) continue;
      std::vector<unsigned char> target(bytes + offset + kMargin, 0xee);
      zero_bytes(target.data() + offset, bytes);
      const auto begin = target.begin() + static_cast<long>(offset), end = begin + static_cast<long>(bytes);
      EXPECT_EQ(std::count(begin, end, 0), static_cast<long>(bytes));
      EXPECT_EQ(std::count(target.begin(), begin, 0xee), static_cast<long>(offset));
      EXPECT_EQ(std::count(end, target.end(), 0xee), static_cast<long>(kMargin));
    }
  }
}

}  // namespace
}  // namespace reshard::device
