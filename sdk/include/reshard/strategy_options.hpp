#ifndef RESHARD_STRATEGY_OPTIONS_HPP
#define RESHARD_STRATEGY_OPTIONS_HPP

// The options of a strategy: which member of its struct each fills, its range, what it does. Part of strategy.hpp.

#include <cstdint>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "strategy_problem.hpp"

namespace reshard::sdk {

// A number of bytes, which users may write as "80 GiB".
struct Bytes {
  int64_t value = 0;
};

// The words that a text may be: Choices{"keep|free"}.
struct Choices {
  const char* words;
};

// One option of the strategy T: its name in TOML, the member it is stored in, its range, what it does in a few words.
// The default is the member's own initialiser.
template <class T>
class Field {
 public:
  using Texts = std::vector<std::string>;

  constexpr Field(const char* name, bool T::*at, const char* doc)
      : Field(
            name, doc, RESHARD_BOOL, at,
            [](Member m, const T& from, reshard_value& to, Items&) { to.integer = from.*m.boolean ? 1 : 0; },
            [](Member m, T& to, const reshard_value& from) { to.*m.boolean = from.integer != 0; }) {}
  constexpr Field(const char* name, int32_t T::*at, int64_t min, int64_t max, const char* doc)
      : Field(
            name, doc, RESHARD_INTEGER, at,
            [](Member m, const T& from, reshard_value& to, Items&) { to.integer = from.*m.int32; },
            [](Member m, T& to, const reshard_value& from) { to.*m.int32 = static_cast<int32_t>(from.integer); }) {
    limit<int32_t>(min, max);
  }
  constexpr Field(const char* name, uint32_t T::*at, int64_t min, int64_t max, const char* doc)
      : Field(
            name, doc, RESHARD_INTEGER, at,
            [](Member m, const T& from, reshard_value& to, Items&) { to.integer = from.*m.uint32; },
            [](Member m, T& to, const reshard_value& from) { to.*m.uint32 = static_cast<uint32_t>(from.integer); }) {
    limit<uint32_t>(min, max);
  }
  constexpr Field(const char* name, int64_t T::*at, int64_t min, int64_t max, const char* doc)
      : Field(
            name, doc, RESHARD_INTEGER, at,
            [](Member m, const T& from, reshard_value& to, Items&) { to.integer = from.*m.int64; },
            [](Member m, T& to, const reshard_value& from) { to.*m.int64 = from.integer; }) {
    limit<int64_t>(min, max);
  }
  constexpr Field(const char* name, double T::*at, double min, double max, const char* doc)
      : Field(
            name, doc, RESHARD_REAL, at,
            [](Member m, const T& from, reshard_value& to, Items&) { to.real = from.*m.real; },
            [](Member m, T& to, const reshard_value& from) { to.*m.real = from.real; }) {
    real_min_ = min, real_max_ = max;
  }
  constexpr Field(const char* name, std::string T::*at, const char* doc)
      : Field(name, doc, RESHARD_STRING, at, load_text, store_text) {}
  constexpr Field(const char* name, std::string T::*at, Choices choices, const char* doc)
      : Field(name, doc, RESHARD_CHOICE, at, load_text, store_text) {
    choices_ = choices.words;
  }
  constexpr Field(const char* name, Bytes T::*at, const char* doc)
      : Field(
            name, doc, RESHARD_BYTES, at,
            [](Member m, const T& from, reshard_value& to, Items&) { to.integer = (from.*m.bytes).value; },
            [](Member m, T& to, const reshard_value& from) { (to.*m.bytes).value = from.integer; }) {
    min_ = 0;
  }
  constexpr Field(const char* name, Texts T::*at, const char* doc)
      : Field(name, doc, RESHARD_LIST | RESHARD_STRING, at, load_texts, store_texts) {}

  // The user must give it.
  constexpr Field required() const {
    Field field = *this;
    field.flags_ = RESHARD_OPTION_REQUIRED;
    return field;
  }

  std::string_view name() const { return name_; }

  // The row of the table, without the default; texts point into `choices`, which the caller keeps.
  reshard_option row(std::vector<reshard_text>& choices) const {
    for (std::string_view rest = choices_; !rest.empty();) {
      const std::string_view word = rest.substr(0, rest.find('|'));
      choices.push_back(detail::text(word));
      rest.remove_prefix(word.size() < rest.size() ? word.size() + 1 : word.size());
    }
    reshard_option option{};
    option.name = detail::text(name_);
    option.doc = detail::text(doc_);
    option.type = type_, option.flags = flags_;
    option.integer_min = min_, option.integer_max = max_;
    option.real_min = real_min_, option.real_max = real_max_;
    option.choices = choices.data(), option.choice_count = static_cast<uint32_t>(choices.size());
    return option;
  }

  // The member's value in `from`; texts point into `from`, lists into `items`, which the caller keeps.
  reshard_value value(const T& from, const reshard_option& option, std::vector<reshard_value>& items) const {
    reshard_value value{};
    value.type = type_;
    load_(at_, from, value, items);
    if (type_ == RESHARD_CHOICE) {
      const auto word = [&](int64_t i) { return detail::view(option.choices[i]); };
      while (value.integer < option.choice_count && word(value.integer) != detail::view(value.text)) ++value.integer;
    }
    return value;
  }

  // Stores a value that the host has checked.
  void store(T& to, const reshard_value& value) const { store_(at_, to, value); }

 private:
  using Items = std::vector<reshard_value>;

  union Member {
    constexpr Member(bool T::*at) : boolean(at) {}
    constexpr Member(int32_t T::*at) : int32(at) {}
    constexpr Member(uint32_t T::*at) : uint32(at) {}
    constexpr Member(int64_t T::*at) : int64(at) {}
    constexpr Member(double T::*at) : real(at) {}
    constexpr Member(std::string T::*at) : text(at) {}
    constexpr Member(Bytes T::*at) : bytes(at) {}
    constexpr Member(Texts T::*at) : texts(at) {}
    bool T::*boolean;
    int32_t T::*int32;
    uint32_t T::*uint32;
    int64_t T::*int64;
    double T::*real;
    std::string T::*text;
    Bytes T::*bytes;
    Texts T::*texts;
  };
  using Load = void (*)(Member at, const T& from, reshard_value& to, Items& items);
  using Store = void (*)(Member at, T& to, const reshard_value& from);

  constexpr Field(const char* name, const char* doc, uint32_t type, Member at, Load loads, Store stores)
      : name_(name), doc_(doc), type_(type), at_(at), load_(loads), store_(stores) {}

  // Keeps the range inside what the member can hold.
  template <class Integer>
  constexpr void limit(int64_t min, int64_t max) {
    constexpr int64_t least = std::numeric_limits<Integer>::min(), most = std::numeric_limits<Integer>::max();
    min_ = min < least ? least : min, max_ = max > most ? most : max;
  }

  static void load_text(Member at, const T& from, reshard_value& to, Items&) { to.text = detail::text(from.*at.text); }
  static void store_text(Member at, T& to, const reshard_value& from) { to.*at.text = detail::view(from.text); }
  static void load_texts(Member at, const T& from, reshard_value& to, Items& items) {
    for (const std::string& text : from.*at.texts) {
      items.emplace_back();
      items.back().type = RESHARD_STRING;
      items.back().text = detail::text(text);
    }
    to.items = items.data(), to.item_count = static_cast<uint32_t>(items.size());
  }
  static void store_texts(Member at, T& to, const reshard_value& from) {
    (to.*at.texts).clear();
    for (uint32_t i = 0; i < from.item_count; ++i) (to.*at.texts).emplace_back(detail::view(from.items[i].text));
  }

  const char *name_, *doc_;
  const char* choices_ = "";
  uint32_t type_, flags_ = 0;
  int64_t min_ = std::numeric_limits<int64_t>::min(), max_ = std::numeric_limits<int64_t>::max();
  double real_min_ = -std::numeric_limits<double>::infinity(), real_max_ = std::numeric_limits<double>::infinity();
  Member at_;
  Load load_;    // a member's value for the host
  Store store_;  // the host's value for a member
};

namespace detail {

template <class T, class = void>
struct HasOptions : std::false_type {};
template <class T>
struct HasOptions<T, std::void_t<decltype(T::options)>> : std::true_type {};

// A strategy's option table as the host reads it, and what its texts point into.
template <class T>
struct Table {
  T defaults;
  std::vector<std::vector<reshard_text>> choices;
  std::vector<std::vector<reshard_value>> items;
  std::vector<reshard_option> rows;

  Table() : defaults() {
    if constexpr (HasOptions<T>::value) {
      choices.resize(std::size(T::options));
      items.resize(std::size(T::options));
      for (const Field<T>& field : T::options) {
        const std::size_t i = rows.size();
        rows.push_back(field.row(choices[i]));
        rows.back().fallback = field.value(defaults, rows.back(), items[i]);
      }
    }
  }
};

}  // namespace detail
}  // namespace reshard::sdk

#endif
