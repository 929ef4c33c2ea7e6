// plugin.h compiles alone, without a warning, in every language that it promises, and reads the same in all of them.
// The layout itself is asserted inside the header; this file is built once per language, and linked here.

#include <gtest/gtest.h>
#include <reshard/plugin.h>

extern "C" {
uint64_t header_c11(const reshard_entry* entry);
uint64_t header_c17(const reshard_entry* entry);
uint64_t header_cxx17(const reshard_entry* entry);
uint64_t header_cxx20(const reshard_entry* entry);
}

namespace {

TEST(Header, AMemberIsThereWhenItsEndIs) {
  for (const auto read : {header_c11, header_c17, header_cxx17, header_cxx20}) {
    reshard_entry entry{};
    for (const auto& [size, expected] :
         {std::pair<uint32_t, uint64_t>{0, 400}, {79, 400}, {80, 401}, {83, 401}, {84, 403}, {4096, 403}}) {
      entry.struct_size = size;
      EXPECT_EQ(read(&entry), expected) << size;
    }
  }
}

TEST(Header, TheFrozenBytesReadAsText) {
  const uint64_t magic = RESHARD_MAGIC;
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(&magic), 8), "RESHARD1");
}

TEST(Header, UnitsAreSteppedByTheirOwnSize) {
  struct Later {
    reshard_unit unit;
    uint64_t added_by_a_minor;
  } units[3] = {};
  for (int i = 0; i < 3; ++i) units[i].unit.bytes = i;
  reshard_problem problem{};
  problem.units = &units[0].unit, problem.unit_count = 3, problem.unit_size = sizeof(Later);
  for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(reshard_unit_at(&problem, i)->bytes, i);
}

}  // namespace
