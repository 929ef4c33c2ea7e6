#include "reshard/table.h"

#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "config/table_rules.h"
#include "config/value.h"
#include "reshard/error.h"

namespace reshard {
namespace {

using config::Site;

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

std::string list_text(const auto& list, auto&& item_text) {
  std::string text = "[";
  for (const auto& item : list) text += (text.size() > 1 ? ", " : "") + item_text(item);
  return text + "]";
}

const OptionValue::List& list_of(const Site& site, const std::string& expected, const OptionValue& value) {
  const auto* list = std::get_if<OptionValue::List>(&value.value);
  if (list == nullptr) config::fail_type(site, expected, value);
  return *list;
}

// One overload per field type: read() returns the checked value, check() looks at one that a field holds already, and
// print() writes it. The two places of a type's rules are thus one.
struct Rules {
  const Site& site;
  const KeySpec& spec;
  const std::string& folder;

  void check(bool) const {}
  void check(int value) const {
    config::check_integer(site, spec, value, std::numeric_limits<int>::min(), std::numeric_limits<int>::max());
  }
  void check(int64_t value) const {
    config::check_integer(site, spec, value, std::numeric_limits<int64_t>::min(), kMost);
  }
  void check(uint64_t value) const {
    if (value > static_cast<uint64_t>(kMost))
      throw Error(ErrorCode::config,
                  site.key + " must be at most " + std::to_string(kMost) + ", not " + std::to_string(value), site.where,
                  "that is the largest integer of TOML");
    config::check_integer(site, spec, static_cast<int64_t>(value), 0, kMost);
  }
  void check(double value) const { config::check_real(site, spec, value); }
  void check(const std::string& value) const {
    if (!value.empty() || !spec.not_empty) config::check_text(site, spec, value);
  }
  void check(const std::vector<double>& list) const {
    for (const double value : list) config::check_real(site, spec, value, true);
  }
  void check(const std::array<double, 2>& list) const {
    for (const double value : list) config::check_real(site, spec, value, true);
  }
  void check(const std::vector<std::string>& list) const {
    for (const std::string& value : list) config::check_text(site, spec, value);
  }
  void check(const std::optional<int>& value) const {
    if (value) check(*value);
  }
  void check(const std::optional<double>& value) const {
    if (value) check(*value);
  }
  void check(const std::optional<AllReduce>&) const {}

  void read(const OptionValue& value, bool& out) const {
    const auto* truth = std::get_if<bool>(&value.value);
    if (truth == nullptr) config::fail_type(site, "true or false", value);
    out = *truth;
  }
  void read(const OptionValue& value, int& out) const {
    const int64_t wide = config::integer_of(site, value);
    config::check_integer(site, spec, wide, std::numeric_limits<int>::min(), std::numeric_limits<int>::max());
    out = static_cast<int>(wide);
  }
  void read(const OptionValue& value, int64_t& out) const { out = config::integer_of(site, value); }
  void read(const OptionValue& value, uint64_t& out) const {
    const int64_t wide = config::integer_of(site, value);
    config::check_integer(site, spec, wide, 0, kMost);
    out = static_cast<uint64_t>(wide);
  }
  void read(const OptionValue& value, double& out) const { out = config::real_of(site, value); }
  void read(const OptionValue& value, std::string& out) const { out = config::text_of(site, spec, value, folder); }
  void read(const OptionValue& value, std::vector<double>& out) const {
    for (const OptionValue& item : list_of(site, "a list of numbers", value))
      out.push_back(config::real_of(site, item, "a list of numbers"));
  }
  void read(const OptionValue& value, std::array<double, 2>& out) const {
    const OptionValue::List& list = list_of(site, "a list of 2 numbers", value);
    if (list.size() != out.size()) config::fail_type(site, "a list of 2 numbers", value);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = config::real_of(site, list[i], "a list of 2 numbers");
  }
  void read(const OptionValue& value, std::vector<std::string>& out) const {
    for (const OptionValue& item : list_of(site, "a list of strings", value)) {
      if (!std::holds_alternative<std::string>(item.value)) config::fail_type(site, "a list of strings", item);
      out.push_back(config::text_of(site, spec, item, folder));
    }
  }
  void read(const OptionValue& value, std::optional<int>& out) const { read(value, out.emplace()); }
  void read(const OptionValue& value, std::optional<double>& out) const { read(value, out.emplace()); }
  void read(const OptionValue& value, std::optional<AllReduce>& out) const {
    out = config::text_of(site, spec, value, folder) == "each" ? AllReduce::each : AllReduce::last;
  }
};

std::string print(bool value) {
  return value ? "true" : "false";
}
std::string print(int value) {
  return std::to_string(value);
}
std::string print(int64_t value) {
  return std::to_string(value);
}
std::string print(uint64_t value) {
  return std::to_string(value);
}
std::string print(double value) {
  return config::number_text(value);
}
std::string print(const std::string& value) {
  return config::quoted_text(value);
}
std::string print(const std::vector<double>& value) {
  return list_text(value, config::number_text);
}
std::string print(const std::array<double, 2>& value) {
  return list_text(value, config::number_text);
}
std::string print(const std::vector<std::string>& value) {
  return list_text(value, config::quoted_text);
}
std::string print(const std::optional<int>& value) {
  return value ? print(*value) : std::string();
}
std::string print(const std::optional<double>& value) {
  return value ? print(*value) : std::string();
}
std::string print(const std::optional<AllReduce>& value) {
  return value ? config::quoted_text(value_text(*value)) : std::string();
}

bool is_name(std::string_view name, bool dots) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [dots](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || (dots && c == '.');
  });
}

const std::string kDefault = "default";
const std::string kNowhere;

}  // namespace

Table::Table(std::string name, std::string doc) : name_(std::move(name)), doc_(std::move(doc)) {
  RESHARD_CHECK(is_name(name_, true), "a table's name is of [a-z0-9_.]");
}

Table& Table::declare(std::string name, Field field, KeySpec spec) {
  RESHARD_CHECK(is_name(name, false), "a key's name is of [a-z0-9_]");
  RESHARD_CHECK(!has(name), "a key is declared once");
  RESHARD_CHECK(spec.doc.find('\n') == std::string::npos, "a key's doc is one line: it is printed as a comment");
  std::function<void()> restore = std::visit(
      [](auto held) -> std::function<void()> {
        if constexpr (std::is_same_v<decltype(held), Bytes>)
          return [to = held.field, value = *held.field] { *to = value; };
        else
          return [to = held, value = *held] { *to = value; };
      },
      field);
  keys_.push_back({std::move(name), field, std::move(spec), kDefault, std::move(restore)});
  return *this;
}

Table& Table::key(std::string name, bool* field, KeySpec spec) {
  return declare(std::move(name), field, std::move(spec));
}
Table& Table::key(std::string name, int* field, KeySpec spec) {
  return declare(std::move(name), field, std::move(spec));
}
Table& Table::key(std::string name, int64_t* field, KeySpec spec) {
  return declare(std::move(name), field, std::move(spec));
}
Table& Table::key(std::string name, uint64_t* field, KeySpec spec) {
  return declare(std::move(name), field, std::move(spec));
}
Table& Table::key(std::string name, double* field, KeySpec spec) {
  return declare(std::move(name), field, std::move(spec));
}
Table& Table::key(std::string name, std::string* field, KeySpec spec) {
  return declare(std::move(name), field, std::move(spec));
}
Table& Table::key(std::string name, std::vector<double>* field, KeySpec spec) {
  return declare(std::move(name), field, std::move(spec));
}
Table& Table::key(std::string name, std::vector<std::string>* field, KeySpec spec) {
  return declare(std::move(name), field, std::move(spec));
}
Table& Table::key(std::string name, std::array<double, 2>* field, KeySpec spec) {
  return declare(std::move(name), field, std::move(spec));
}
Table& Table::key(std::string name, std::optional<int>* field, KeySpec spec) {
  return declare(std::move(name), field, std::move(spec));
}
Table& Table::key(std::string name, std::optional<double>* field, KeySpec spec) {
  return declare(std::move(name), field, std::move(spec));
}
Table& Table::key(std::string name, std::optional<AllReduce>* field, KeySpec spec) {
  spec.choices = {value_text(AllReduce::each), value_text(AllReduce::last)};
  return declare(std::move(name), field, std::move(spec));
}
Table& Table::bytes(std::string name, int64_t* field, KeySpec spec) {
  if (!spec.min && !spec.above) spec.min = 0;
  return declare(std::move(name), Bytes{field}, std::move(spec));
}

std::vector<std::string> Table::keys() const {
  std::vector<std::string> names;
  for (const Key& key : keys_) names.push_back(key.name);
  return names;
}

bool Table::has(std::string_view key) const {
  return std::any_of(keys_.begin(), keys_.end(), [key](const Key& known) { return known.name == key; });
}

std::size_t Table::index(std::string_view key) const {
  const auto found = std::find_if(keys_.begin(), keys_.end(), [key](const Key& known) { return known.name == key; });
  RESHARD_CHECK(found != keys_.end(), "the key was declared");
  return static_cast<std::size_t>(found - keys_.begin());
}

const KeySpec& Table::spec(std::string_view key) const {
  return find(key).spec;
}

const std::string& Table::where(std::string_view key) const {
  return find(key).where;
}

void Table::set(std::string_view name, const OptionValue& value, const std::string& folder) {
  Key& key = keys_[index(name)];
  const std::string full = path(key);
  const Site site{full, value.where};
  const Rules rules{site, key.spec, folder};
  const auto assign = [&](auto field) {
    if constexpr (std::is_same_v<decltype(field), Bytes>) {
      const int64_t bytes = config::bytes_of(site, value);
      rules.check(bytes);
      *field.field = bytes;
    } else {
      std::remove_pointer_t<decltype(field)> read{};
      rules.read(value, read);
      rules.check(read);
      *field = std::move(read);
    }
  };
  std::visit(assign, key.field);
  key.where = value.where;
}

void Table::came_from(std::string_view key, std::string where) {
  keys_[index(key)].where = std::move(where);
}

void Table::reset(std::string_view name, std::string where) {
  Key& key = keys_[index(name)];
  key.restore();
  key.where = std::move(where);
}

std::string Table::text(std::string_view name) const {
  const Key& key = find(name);
  return std::visit(
      [&key](auto field) -> std::string {
        if constexpr (std::is_same_v<decltype(field), Bytes>) {
          return config::bytes_value_text(*field.field);
        } else if constexpr (std::is_same_v<decltype(field), std::string*>) {
          return field->empty() && key.spec.not_empty ? std::string() : print(*field);
        } else {
          return print(*field);
        }
      },
      key.field);
}

void Table::check() const {
  for (const Key& key : keys_) {
    const std::string full = path(key);
    const Site site{full, key.where == kDefault ? kNowhere : key.where};
    const Rules rules{site, key.spec, kNowhere};
    const auto look = [&rules](auto field) {
      if constexpr (std::is_same_v<decltype(field), Bytes>)
        rules.check(*field.field);
      else
        rules.check(*field);
    };
    std::visit(look, key.field);
  }
}

}  // namespace reshard
