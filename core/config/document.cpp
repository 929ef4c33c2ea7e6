#include "config/document.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <toml++/toml.h>

#include "reshard/error.h"

namespace reshard::config {
namespace {

std::string place(const std::string& path, const toml::source_position& at) {
  return fmt::format("{}:{}:{}", path, at.line, at.column);
}

// toml++ says "Error while parsing key-value pair: cannot redefine …"; the sentence after the colon is what counts.
[[noreturn]] void fail(const toml::parse_error& error, const std::string& path) {
  std::string text(error.description());
  constexpr std::string_view kContext = "Error while parsing ";
  if (text.starts_with(kContext))
    if (const std::size_t colon = text.find(": "); colon != std::string::npos)
      text = text.substr(colon + 2) + ", in the " + text.substr(kContext.size(), colon - kContext.size());
  std::string remedy;
  if (text.find("could not determine value type") != std::string::npos) remedy = "text needs quotes: key = \"text\"";
  if (text.find("cannot redefine") != std::string::npos) remedy = "write each key and each table once";
  throw Error(ErrorCode::config, "not valid TOML: " + text, place(path, error.source().begin), remedy);
}

Block block_of(const toml::table& table, const std::string& path, std::string where);

// An array that holds tables, and tables only, is a list of tables.
bool holds_tables(const toml::array& array) {
  return !array.empty() && std::all_of(array.begin(), array.end(), [](const toml::node& n) { return n.is_table(); });
}

OptionValue value_of(const toml::node& node, const std::string& path) {
  OptionValue out;
  out.where = place(path, node.source().begin);
  if (const auto* boolean = node.as_boolean()) {
    out.value = boolean->get();
  } else if (const auto* integer = node.as_integer()) {
    out.value = integer->get();
  } else if (const auto* real = node.as_floating_point()) {
    out.value = real->get();
  } else if (const auto* text = node.as_string()) {
    out.value = text->get();
  } else if (const auto* array = node.as_array()) {
    OptionValue::List list;
    for (const toml::node& item : *array) list.push_back(value_of(item, path));
    out.value = std::move(list);
  } else if (node.is_table()) {
    throw Error(ErrorCode::config, "a list holds both tables and values", out.where, "write one kind in one list");
  } else {
    throw Error(ErrorCode::config, "no key takes a date or a time", out.where, "text needs quotes: key = \"text\"");
  }
  return out;
}

Entry entry_of(const toml::key& key, const toml::node& node, const std::string& path) {
  Entry entry;
  entry.key = std::string(key.str());
  entry.where = place(path, key.source().begin);
  if (const auto* table = node.as_table()) {
    entry.content = block_of(*table, path, entry.where);
  } else if (const auto* array = node.as_array(); array != nullptr && holds_tables(*array)) {
    std::vector<Block> blocks;
    for (const toml::node& item : *array)
      blocks.push_back(block_of(*item.as_table(), path, place(path, item.source().begin)));
    entry.content = std::move(blocks);
  } else {
    entry.content = value_of(node, path);
  }
  return entry;
}

// toml++ keeps a table sorted by key; an error must name what stands first in the text.
Block block_of(const toml::table& table, const std::string& path, std::string where) {
  std::vector<std::pair<toml::source_position, std::pair<const toml::key*, const toml::node*>>> found;
  for (auto&& [key, node] : table) found.push_back({key.source().begin, {&key, &node}});
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  Block block;
  block.where = std::move(where);
  for (const auto& [at, pair] : found) block.entries.push_back(entry_of(*pair.first, *pair.second, path));
  return block;
}

}  // namespace

namespace {

// The parser takes a step of its own stack for each part of a dotted key, and so does whoever frees the table.
constexpr int kMostParts = 256;

void check_depth(std::string_view text, const std::string& path) {
  int line = 1, column = 0, dots = 0;
  bool value = false;  // what stands behind '=' is no key
  for (const char c : text) {
    ++column;
    if (c == '\n') ++line, column = dots = 0, value = false;
    if (c == '=') value = true;
    if (c == '.' && !value && ++dots == kMostParts)
      throw Error(ErrorCode::config, fmt::format("a key has more than {} parts", kMostParts),
                  fmt::format("{}:{}:{}", path, line, column), "no table of a job is that deep");
  }
}

}  // namespace

Block parse_document(std::string_view text, const std::string& path) {
  check_depth(text, path);
  try {
    return block_of(toml::parse(text), path, path);
  } catch (const toml::parse_error& error) {
    fail(error, path);
  }
}

bool is_toml(std::string_view text) {
  if (std::count(text.begin(), text.end(), '.') > kMostParts) return false;
  try {
    const toml::table parsed = toml::parse(text);
    return true;
  } catch (const toml::parse_error&) {
    return false;
  }
}

}  // namespace reshard::config
