// What a shipped strategy shows to the loader: one data symbol, and no wish but for the C and C++ runtime. Read from
// the section headers, which the loader itself does not use.

#include <elf.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/plugin/files.h"

namespace reshard {
namespace {

struct Symbol {
  std::string name;
  bool defined = false;
  unsigned char type = 0, binding = 0;
};

std::vector<Symbol> dynamic_symbols(std::string bytes) {
  const auto header = tests::overlay<Elf64_Ehdr>(bytes, 0);
  const auto section = [&](std::size_t i) {
    return tests::overlay<Elf64_Shdr>(bytes, header.e_shoff + i * sizeof(Elf64_Shdr));
  };
  std::vector<Symbol> symbols;
  for (std::size_t i = 0; i < header.e_shnum; ++i) {
    const Elf64_Shdr table = section(i);
    if (table.sh_type != SHT_DYNSYM) continue;
    const Elf64_Shdr names = section(table.sh_link);
    for (std::size_t at = sizeof(Elf64_Sym); at < table.sh_size; at += sizeof(Elf64_Sym)) {  // the first one is null
      const auto symbol = tests::overlay<Elf64_Sym>(bytes, table.sh_offset + at);
      symbols.push_back({bytes.c_str() + names.sh_offset + symbol.st_name, symbol.st_shndx != SHN_UNDEF,
                         static_cast<unsigned char>(ELF64_ST_TYPE(symbol.st_info)),
                         static_cast<unsigned char>(ELF64_ST_BIND(symbol.st_info))});
    }
  }
  return symbols;
}

TEST(Exports, OneDataSymbolAndNothingOfTheHost) {
  for (const char* name : tests::kShipped) {
    int imported = 0;
    std::string exported;
    for (const Symbol& symbol : dynamic_symbols(tests::read_bytes(tests::shipped(name)))) {
      if (symbol.defined) {
        exported += symbol.name + (symbol.type == STT_OBJECT ? " data\n" : " no data\n");
        continue;
      }
      ++imported;
      EXPECT_EQ(symbol.name.find("reshard"), std::string::npos) << name << " imports " << symbol.name;
      EXPECT_NE(symbol.binding, STB_GNU_UNIQUE) << symbol.name;
    }
    EXPECT_EQ(exported, "reshard_plugin_v1 data\n") << name;
    EXPECT_GT(imported, 0) << "nothing was read of " << name;
  }
}

}  // namespace
}  // namespace reshard
