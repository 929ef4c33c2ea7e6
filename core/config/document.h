#pragma once

// A TOML text as a tree of tables and values, each with its place. The one folder-internal face of toml++: no other
// file of the repository includes it.

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "reshard/options.h"

namespace reshard::config {

struct Entry;

// A table: its entries in the order of the text.
struct Block {
  std::string where;  // "job.toml:14:2", of its name
  std::vector<Entry> entries;
};

struct Entry {
  std::string key;
  std::string where;                                             // of the key
  std::variant<OptionValue, Block, std::vector<Block>> content;  // the last: [[key]], or a list of inline tables
};

// Parses `text`; `path` stands in the places as it is. Throws Error(config) with the place of what is no TOML, and for
// dates and times, which no key takes.
Block parse_document(std::string_view text, const std::string& path);

// True when `text` is a whole TOML document by its syntax alone.
bool is_toml(std::string_view text);

}  // namespace reshard::config
