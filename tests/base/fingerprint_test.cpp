// FNV-1a's published values, and that texts have ends.

#include "base/fingerprint.h"

#include <string_view>

#include <gtest/gtest.h>

namespace reshard::base {
namespace {

uint64_t of(std::initializer_list<std::string_view> texts) {
  Fingerprint fingerprint;
  for (const std::string_view text : texts) fingerprint.add(text);
  return fingerprint.value();
}

TEST(Fingerprint, IsFnv1a) {
  EXPECT_EQ(Fingerprint().value(), 0xCBF29CE484222325U);
  Fingerprint a;
  a.add(uint32_t{'a'});
  EXPECT_EQ(a.value(), 0xAF63DC4C8601EC8CU);
}

TEST(Fingerprint, TextsDoNotRunIntoOneAnother) {
  EXPECT_NE(of({"ab", "c"}), of({"a", "bc"}));
  EXPECT_NE(of({"ab", ""}), of({"ab"}));
  EXPECT_EQ(of({"ab", "c"}), of({"ab", "c"}));
}

}  // namespace
}  // namespace reshard::base
