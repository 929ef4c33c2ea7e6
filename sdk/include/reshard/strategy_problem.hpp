#ifndef RESHARD_STRATEGY_PROBLEM_HPP
#define RESHARD_STRATEGY_PROBLEM_HPP

// What a strategy is asked about (Problem, Unit) and where its answers go (Plan, Decision). Part of strategy.hpp.

#include <cstdint>
#include <cstdio>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plugin.h"

namespace reshard::sdk {

enum class Level : uint32_t { trace, debug, info, warn, error };

enum class Reduce : uint32_t { each = RESHARD_EACH, last = RESHARD_LAST };

// What happens to a unit's whole parameters after a pass. shrink(k) is for after_forward only.
class After {
 public:
  static const After free, keep;
  static constexpr After shrink(uint32_t ranks) { return After(RESHARD_SHRINK, ranks); }

  constexpr uint32_t kind() const { return kind_; }
  constexpr uint32_t ranks() const { return ranks_; }

 private:
  constexpr After(uint32_t kind, uint32_t ranks) : kind_(kind), ranks_(ranks) {}
  uint32_t kind_, ranks_;
};
inline constexpr After After::free{RESHARD_FREE, 0};
inline constexpr After After::keep{RESHARD_KEEP, 0};

// One unit's decision. A field that is not set takes the core's default.
struct Decision {
  std::optional<After> after_forward, after_backward;
  std::optional<Reduce> reduce;
  std::optional<uint32_t> prefetch_forward, prefetch_backward;
};

namespace detail {

// A failure that the host reported; it goes back to the host as it came. No std::exception, lest a strategy swallow it.
struct HostRefused {
  int32_t status;
  reshard_error error;
};

inline reshard_text text(std::string_view view) {
  return {view.data(), view.size()};
}
inline std::string_view view(reshard_text text) {
  return {text.data, static_cast<std::size_t>(text.size)};
}

}  // namespace detail

// A unit of the problem; a view that is valid inside decide.
class Unit {
 public:
  Unit(const reshard_unit* raw, uint32_t index) : raw_(raw), index_(index) {}

  uint32_t index() const { return index_; }
  std::string_view name() const { return detail::view(raw_->name); }
  bool is_root() const { return (raw_->flags & RESHARD_UNIT_ROOT) != 0; }
  int32_t parent() const { return raw_->parent; }  // index of the unit around it, -1 for the root
  int64_t bytes() const { return raw_->bytes; }    // of all parameters, whole; 0 = owns none
  int64_t trainable_bytes() const { return raw_->trainable_bytes; }
  int64_t gradient_bytes() const { return raw_->gradient_bytes; }
  double flops_forward() const { return raw_->flops_forward; }  // per micro-batch; 0 = not declared
  double flops_backward() const { return raw_->flops_backward; }
  double seconds_gather() const { return raw_->seconds_gather; }  // estimated; 0 = unknown

 private:
  const reshard_unit* raw_;
  uint32_t index_;
};

// The problem's units in declared forward order, the root first.
class Units {
 public:
  class Iterator {
   public:
    Iterator(const reshard_problem* raw, uint32_t index) : raw_(raw), index_(index) {}
    Unit operator*() const { return {reshard_unit_at(raw_, index_), index_}; }
    Iterator& operator++() { return ++index_, *this; }
    bool operator!=(const Iterator& other) const { return index_ != other.index_; }

   private:
    const reshard_problem* raw_;
    uint32_t index_;
  };

  explicit Units(const reshard_problem* raw) : raw_(raw) {}
  Iterator begin() const { return {raw_, 0}; }
  Iterator end() const { return {raw_, raw_->unit_count}; }
  uint32_t size() const { return raw_->unit_count; }
  Unit operator[](uint32_t index) const { return {reshard_unit_at(raw_, index), index}; }

 private:
  const reshard_problem* raw_;
};

class Problem {
 public:
  explicit Problem(const reshard_problem* raw) : raw_(raw) {}

  uint32_t ranks() const { return raw_->ranks; }
  uint32_t ranks_per_node() const { return raw_->ranks_per_node; }
  uint32_t microbatches() const { return raw_->microbatches; }
  int64_t budget_bytes() const { return raw_->budget_bytes; }  // per rank; 0 = none
  uint64_t seed() const { return raw_->seed; }
  Units units() const { return Units(raw_); }

 private:
  const reshard_problem* raw_;
};

// The value of an option cannot be used. `key`: the option's name, or "name[2]" for an item of a list.
class OptionError : public std::runtime_error {
 public:
  OptionError(std::string key, const std::string& text) : std::runtime_error(text), key_(std::move(key)) {}
  const std::string& key() const { return key_; }

 private:
  std::string key_;
};

// The strategy cannot serve this problem.
class ProblemError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Where answers go, valid inside decide. Each answer is checked by the host as it is given, and given once: to change
// one, clear it first. A reason is a short sentence without a full stop, printed where a user asks why.
class Plan {
 public:
  Plan(const reshard_plan* raw, const reshard_host* host) : raw_(raw), host_(host) {}

  void set(const Unit& unit, const Decision& decision, std::string_view reason) {
    reshard_decision raw{};
    raw.struct_size = sizeof raw;
    if (decision.after_forward) {
      raw.set |= RESHARD_SET_AFTER_FORWARD;
      raw.after_forward = decision.after_forward->kind();
      raw.shrink_ranks = decision.after_forward->ranks();
    }
    if (decision.after_backward) {
      raw.set |= RESHARD_SET_AFTER_BACKWARD;
      raw.after_backward = decision.after_backward->kind();
    }
    if (decision.reduce) raw.set |= RESHARD_SET_REDUCE, raw.reduce = static_cast<uint32_t>(*decision.reduce);
    if (decision.prefetch_forward) {
      raw.set |= RESHARD_SET_PREFETCH_FORWARD;
      raw.prefetch_forward = *decision.prefetch_forward;
    }
    if (decision.prefetch_backward) {
      raw.set |= RESHARD_SET_PREFETCH_BACKWARD;
      raw.prefetch_backward = *decision.prefetch_backward;
    }
    call([&](reshard_error* error) {
      return raw_->set_unit(raw_->context, unit.index(), &raw, detail::text(reason), error);
    });
  }

  // Ranks that a unit is sharded over: 0 = all, 1 = plain data parallel.
  void shard_over(uint32_t ranks, std::string_view reason) {
    call([&](reshard_error* error) { return raw_->set_shard_over(raw_->context, ranks, detail::text(reason), error); });
  }

  // When replicas exchange their gradients.
  void all_reduce(Reduce when, std::string_view reason) {
    call([&](reshard_error* error) {
      return raw_->set_all_reduce(raw_->context, static_cast<uint32_t>(when), detail::text(reason), error);
    });
  }

  void clear(const Unit& unit) {
    call([&](reshard_error* error) { return raw_->clear(raw_->context, unit.index(), error); });
  }
  void clear() {
    call([&](reshard_error* error) { return raw_->clear(raw_->context, RESHARD_EVERYTHING, error); });
  }

  // Bytes per rank at the peak of a step under the answers so far; -1 = unknown.
  int64_t predicted_peak() {
    int64_t bytes = -1;
    call([&](reshard_error* error) { return raw_->predicted_peak(raw_->context, &bytes, error); });
    return bytes;
  }

  // Ask logs() before composing a costly line.
  bool logs(Level level) const { return host_->log_enabled(host_->context, static_cast<uint32_t>(level)) != 0; }
  void log(Level level, std::string_view line) const {
    host_->log(host_->context, static_cast<uint32_t>(level), detail::text(line));
  }

 private:
  template <class Call>
  void call(const Call& body) {
    detail::HostRefused refused{};
    refused.error.struct_size = sizeof refused.error;
    refused.status = body(&refused.error);
    if (refused.status != RESHARD_OK) throw refused;
  }

  const reshard_plan* raw_;
  const reshard_host* host_;
};

// True when `pattern` matches all of `name`: '*' any run of characters, dots included, '?' one, all else itself.
inline bool glob_match(std::string_view pattern, std::string_view name) {
  // Only the latest star can still need to take more: whatever an earlier one took, the part between them has matched.
  std::size_t p = 0, n = 0, star = std::string_view::npos, resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p, ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

// The problem's units in the order in which the declared backward pass enters them: the root, then what it encloses
// from the last to the first, each before what it encloses itself.
inline std::vector<Unit> backward_order(const Units& units) {
  std::vector<std::vector<uint32_t>> inside(units.size());
  std::vector<uint32_t> open;
  for (const Unit& unit : units) {
    if (unit.parent() < 0)
      open.push_back(unit.index());
    else
      inside[static_cast<std::size_t>(unit.parent())].push_back(unit.index());
  }
  std::vector<Unit> order;
  while (!open.empty()) {
    const uint32_t next = open.back();
    open.pop_back();
    order.push_back(units[next]);
    open.insert(open.end(), inside[next].begin(), inside[next].end());
  }
  return order;
}

// "512 B", "1.5 KiB", "80 GiB": three significant digits, powers of 1024, as the host writes bytes. For reasons.
inline std::string bytes_text(int64_t bytes) {
  static constexpr const char* names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1023.5 && unit + 1 < std::size(names)) value /= 1024, ++unit;
  char digits[32];
  std::snprintf(digits, sizeof digits, "%.*f", value >= 100 || unit == 0 ? 0 : value >= 10 ? 1 : 2, value);
  std::string text = digits;
  if (text.find('.') != std::string::npos) {
    while (text.back() == '0') text.pop_back();
    if (text.back() == '.') text.pop_back();
  }
  return text + " " + names[unit];
}

// "1.5 s", "2.25 ms", "980 µs": three significant digits.
inline std::string seconds_text(double seconds) {
  char text[32];
  if (seconds >= 1)
    std::snprintf(text, sizeof text, "%.3g s", seconds);
  else if (seconds >= 1e-3)
    std::snprintf(text, sizeof text, "%.3g ms", seconds * 1e3);
  else
    std::snprintf(text, sizeof text, "%.3g µs", seconds * 1e6);
  return text;
}

// "1, 2, 4 and 8": the numbers that divide `ranks`, for errors about one that does not.
inline std::string divisors_text(uint32_t ranks) {
  std::string text;
  for (uint32_t k = 1; k < ranks; ++k)
    if (ranks % k == 0) text += (text.empty() ? "" : ", ") + std::to_string(k);
  return text.empty() ? std::to_string(ranks) : text + " and " + std::to_string(ranks);
}

// The k of an option that says how many ranks do something together: `given`, or the ranks of a node where it is 0. Throws
// OptionError for one that does not divide the ranks, naming the numbers that do.
inline uint32_t group_ranks(const Problem& problem, const char* key, uint32_t given) {
  const uint32_t all = problem.ranks(), k = given > 0 ? given : problem.ranks_per_node();
  if (all % k != 0)
    throw OptionError(key, std::to_string(k) + " does not divide the " + std::to_string(all) +
                               " ranks; use 0 (the ranks of a node) or one of " + divisors_text(all));
  return k;
}

}  // namespace reshard::sdk

#endif
