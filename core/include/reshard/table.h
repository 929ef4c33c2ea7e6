#pragma once

// One table of a job file, declared by binding keys to the fields of a live struct. The one declaration serves reading
// (type, range, unknown keys), `--set`, and `--print-job`; the core's own tables are declared in just this way, so a
// program's tables get the same checks and the same error places:
//
//   struct Model { int layers = 4; std::string units = "root"; };
//   Model model;
//   Table table("model", "The network.");
//   table.key("layers", &model.layers, {.doc = "Blocks.", .min = 1, .max = 1000})
//       .key("units", &model.units, {.doc = "Where the embeddings live.", .choices = {"root", "split"}});
//
// The struct must outlive the table and stay where it is; what the fields hold at the declaration are the defaults.
// Not for use by two threads at once.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "reshard/decision.h"
#include "reshard/options.h"

namespace reshard {

// Which text values are files. A relative one is read relative to the folder of the job file that holds it, on the
// command line relative to the working directory; the field then holds an absolute path.
enum class PathKind : uint8_t {
  none,    // the value is text
  file,    // the value, or each of a list, is a file or folder
  plugin,  // a value with '/' or ending in ".so" is a file, any other a name
};

struct KeySpec {
  std::string doc = {};  // one sentence or a few words; printed as the key's comment
  // Bounds of a number, of bytes, or of each number of a list: min <= value <= max, above < value < below.
  std::optional<double> min = {}, max = {}, above = {}, below = {};
  std::vector<std::string> choices = {};  // of a string, or of each string of a list; empty = any text
  PathKind path = PathKind::none;
  bool not_empty = false;  // a string that must have text
};

class Table {
 public:
  // `name` without brackets; a dot makes it the table of a table ("optimizer.schedule"). `doc`: printed above it.
  Table(std::string name, std::string doc);

  // Declares a key. REQUIRES: a name of [a-z0-9_], not declared before, a default that satisfies `spec`.
  Table& key(std::string name, bool* field, KeySpec spec = {});
  Table& key(std::string name, int* field, KeySpec spec = {});
  Table& key(std::string name, int64_t* field, KeySpec spec = {});
  Table& key(std::string name, uint64_t* field, KeySpec spec = {});  // 0 … 2^63 - 1, the largest that TOML can hold
  Table& key(std::string name, double* field, KeySpec spec = {});    // NaN and infinity are refused
  Table& key(std::string name, std::string* field, KeySpec spec = {});
  Table& key(std::string name, std::vector<double>* field, KeySpec spec = {});
  Table& key(std::string name, std::vector<std::string>* field, KeySpec spec = {});
  Table& key(std::string name, std::array<double, 2>* field, KeySpec spec = {});
  Table& key(std::string name, std::optional<int>* field, KeySpec spec = {});  // printed as a comment while absent
  Table& key(std::string name, std::optional<double>* field, KeySpec spec = {});
  Table& key(std::string name, std::optional<AllReduce>* field, KeySpec spec = {});
  // A number of bytes: an integer, or text such as "2 GiB".
  Table& bytes(std::string name, int64_t* field, KeySpec spec = {});

  const std::string& name() const { return name_; }
  const std::string& doc() const { return doc_; }
  std::vector<std::string> keys() const;  // in the order of declaration
  bool has(std::string_view key) const;
  const KeySpec& spec(std::string_view key) const;

  // Where the value came from: "job.toml:14:1", "--set model.layers", or "default".
  const std::string& where(std::string_view key) const;

  // Checks `value` and writes it into the field; its place becomes the key's. Throws Error(config) with that place and
  // leaves the field alone when type, range or choice are wrong. A relative path is taken relative to `folder`.
  void set(std::string_view key, const OptionValue& value, const std::string& folder);

  // Writes the key's default, which the field held at the declaration, and says where that came from.
  void reset(std::string_view key, std::string where);

  // The field as it is now, as a TOML value: `4`, `"root"`, `[0.9, 0.95]`; empty for an absent optional.
  std::string text(std::string_view key) const;

  // Says where a value came from that the field got by another way than set().
  void came_from(std::string_view key, std::string where);

  // Checks every field as it is now, for a struct that was filled in code; throws Error(config) as set() does.
  void check() const;

 private:
  struct Bytes {
    int64_t* field;
  };
  using Field = std::variant<bool*, int*, int64_t*, uint64_t*, double*, std::string*, std::vector<double>*,
                             std::vector<std::string>*, std::array<double, 2>*, std::optional<int>*,
                             std::optional<double>*, std::optional<AllReduce>*, Bytes>;
  struct Key {
    std::string name;
    Field field;
    KeySpec spec;
    std::string where;
    std::function<void()> restore;  // writes the default
  };

  Table& declare(std::string name, Field field, KeySpec spec);
  std::size_t index(std::string_view key) const;
  const Key& find(std::string_view key) const { return keys_[index(key)]; }
  std::string path(const Key& key) const { return name_ + "." + key.name; }

  std::string name_, doc_;
  std::vector<Key> keys_;
};

using Tables = std::vector<Table>;

}  // namespace reshard
