// Texts that people read keep three significant digits, and what is written for a byte count reads back to it.

#include "reshard/text.h"

#include <cstdint>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace reshard::base {
namespace {

constexpr int64_t kKi = 1024, kMi = kKi * kKi, kGi = kMi * kKi;

TEST(BytesText, KeepsThreeSignificantDigits) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(1), "1 B");
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(1024), "1 KiB");
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(bytes_text(1300), "1.27 KiB");
  EXPECT_EQ(bytes_text(12 * kKi + 300), "12.3 KiB");
  EXPECT_EQ(bytes_text(-3 * kMi / 2), "-1.5 MiB");
  EXPECT_EQ(bytes_text(80 * kGi), "80 GiB");
  EXPECT_EQ(bytes_text(kMi - 1), "1 MiB");
  EXPECT_EQ(bytes_text(std::numeric_limits<int64_t>::max()), "8 EiB");
}

TEST(BytesText, ReadsBackToWithinItsThreeDigits) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 10'000; ++i) {
    const auto bytes =
        static_cast<int64_t>(random() >> (14 + random() % 50));  // up to 2^50: TiB is the largest unit that is read
    const auto read = parse_bytes(bytes_text(bytes));
    ASSERT_TRUE(read.has_value()) << bytes_text(bytes);
    EXPECT_LE(std::llabs(*read - bytes), bytes / 190) << bytes_text(bytes);
    EXPECT_TRUE(bytes >= kKi || *read == bytes) << bytes;
  }
}

TEST(ParseBytes, ReadsCountsWithAndWithoutUnits) {
  EXPECT_EQ(parse_bytes("4096"), 4096);
  EXPECT_EQ(parse_bytes("4096 B"), 4096);
  EXPECT_EQ(parse_bytes("0"), 0);
  EXPECT_EQ(parse_bytes("80 GiB"), 80 * kGi);
  EXPECT_EQ(parse_bytes("80GiB"), 80 * kGi);
  EXPECT_EQ(parse_bytes("1.5 MiB"), 3 * kMi / 2);
  EXPECT_EQ(parse_bytes("1.5GB"), 1'500'000'000);
  EXPECT_EQ(parse_bytes("2 kB"), 2000);
}

TEST(ParseBytes, RefusesWhatIsNoByteCount) {
  for (const char* text : {"", " ", "GiB", "-1", "-1 GiB", "1 gib", "1 G", "1 GiB of memory", "1,5 GiB", "nan", "inf",
                           "1e30 GiB", "9300000 TiB", "0x10"})
    EXPECT_EQ(parse_bytes(text), std::nullopt) << text;
}

TEST(CountText, SeparatesThousands) {
  EXPECT_EQ(count_text(0), "0");
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(count_text(1000), "1,000");
  EXPECT_EQ(count_text(1234567), "1,234,567");
  EXPECT_EQ(count_text(-123), "-123");
  EXPECT_EQ(count_text(-123456), "-123,456");
}

TEST(SecondsText, ChoosesTheUnit) {
  EXPECT_EQ(seconds_text(0.42e-6), "0.42 µs");
  EXPECT_EQ(seconds_text(3.1e-3), "3.1 ms");
  EXPECT_EQ(seconds_text(12.0), "12 s");
  EXPECT_EQ(seconds_text(250), "4 min 10 s");
  EXPECT_EQ(seconds_text(std::numeric_limits<double>::infinity()), "-");
}

TEST(ListText, JoinsWithCommasAndAnAnd) {
  EXPECT_EQ(list_text(std::vector<int>{}), "");
  EXPECT_EQ(list_text(std::vector<int>{1}), "1");
  EXPECT_EQ(list_text(std::vector<int>{1, 2}), "1 and 2");
  EXPECT_EQ(list_text(std::vector<std::string>{"a", "b", "c"}), "a, b and c");
}

TEST(Nearest, FindsTheNameThatWasMeant) {
  const std::vector<std::string> names = {"steps", "global_batch", "microbatches", "seed", "lr"};
  EXPECT_EQ(nearest("step", names), "steps");
  EXPECT_EQ(nearest("global-batch", names), "global_batch");
  EXPECT_EQ(nearest("microbatchs", names), "microbatches");
  EXPECT_EQ(nearest("lt", names), "lr");
  EXPECT_EQ(nearest("sed", names), "seed");
}

TEST(Nearest, SaysNothingRatherThanNonsense) {
  const std::vector<std::string> names = {"steps", "global_batch", "lr"};
  EXPECT_EQ(nearest("momentum", names), "");
  EXPECT_EQ(nearest("xyz", names), "");
  EXPECT_EQ(nearest("steps", {}), "");
}

// Says what '*' and '?' mean in the plainest way; slow, hence only for comparing.
bool matches_by_definition(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) return name.empty();
  if (pattern[0] == '*')
    return matches_by_definition(pattern.substr(1), name) ||
           (!name.empty() && matches_by_definition(pattern, name.substr(1)));
  return !name.empty() && (pattern[0] == '?' || pattern[0] == name[0]) &&
         matches_by_definition(pattern.substr(1), name.substr(1));
}

TEST(Glob, MatchesAsDefinedOnRandomPatterns) {
  std::mt19937 random(1);
  int matched = 0;
  const auto text = [&](std::string_view letters, std::size_t most) {
    std::string out(random() % (most + 1), ' ');
    for (char& c : out) c = letters[random() % letters.size()];
    return out;
  };
  for (int i = 0; i < 20'000; ++i) {
    const std::string pattern = text("ab.*?", 6), name = text("ab.", 7);
    const bool expected = matches_by_definition(pattern, name);
    ASSERT_EQ(glob_match(pattern, name), expected) << pattern << " on " << name;
    matched += expected ? 1 : 0;
  }
  EXPECT_GT(matched, 200);
}

TEST(Glob, StarCoversDotsAndTheWholeNameIsMeant) {
  EXPECT_TRUE(glob_match("*", "root"));
  EXPECT_TRUE(glob_match("h.*", "h.3.attn"));
  EXPECT_FALSE(glob_match("h", "h.3"));
  EXPECT_FALSE(glob_match("h.?", "h.10"));
  EXPECT_TRUE(is_glob("h.*"));
  EXPECT_TRUE(is_glob("h.?"));
  EXPECT_FALSE(is_glob("h.3"));
}

TEST(TextTable, AlignsNumbersRightAndWordsLeftWithoutTrailingBlanks) {
  TextTable table({"unit", "bytes", "change", "note"});
  table.add({"root", "1.5 KiB", "+3%", ""});
  table.add({"h.0", "12 MiB", "-", "kept"});
  EXPECT_EQ(table.text(),
            "unit    bytes  change  note\n"
            "root  1.5 KiB     +3%\n"
            "h.0    12 MiB       -  kept\n");
}

TEST(TextTable, CountsCodePointsAndIndents) {
  TextTable table({"op", "time"});
  table.add({"gather", "3 µs"});
  table.add({"größer", "12 ms"});
  EXPECT_EQ(table.text("  "),
            "  op       time\n"
            "  gather   3 µs\n"
            "  größer  12 ms\n");
}

}  // namespace
}  // namespace reshard::base
