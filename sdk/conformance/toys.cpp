#include "conformance/toys.h"

#include <malloc.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "reshard/error.h"
#include "reshard/model.h"
#include "strategy/resolve.h"

namespace reshard::conformance {
namespace {

constexpr int64_t kStatePerByte = 4;  // a gradient and two states of an optimizer beside the parameter

int64_t peak(const std::vector<ProblemUnit>& units, int ranks, const Answers& answers) {
  const int shards = answers.shard_over.value_or(0) == 0 ? ranks : std::max(1, *answers.shard_over);
  int64_t rest = 0, kept = 0, largest = 0;
  for (std::size_t i = 0; i < units.size(); ++i) {
    rest += units[i].bytes / shards * kStatePerByte;
    largest = std::max(largest, units[i].bytes);
    if (i < answers.units.size() && answers.units[i].after_forward == AfterForward::keep()) kept += units[i].bytes;
  }
  return rest + kept + 2 * largest;
}

Model model_of(const Problem& problem) {
  const auto spec = [&](std::size_t i) {
    UnitSpec unit{.name = problem.units[i].name};
    if (problem.units[i].bytes > 0)
      unit.parameters = {{.name = unit.name + ".w", .shape = {std::max<int64_t>(1, problem.units[i].bytes / 4)}}};
    return unit;
  };
  Model model(spec(0));
  for (std::size_t i = 1; i < problem.units.size(); ++i) model.add(spec(i), Unit{problem.units[i].parent});
  return model;
}

void set_peak(Problem& problem) {
  problem.predicted_peak = [units = problem.units, ranks = problem.ranks](const Answers& answers) {
    return peak(units, ranks, answers);
  };
}

plugin::OptionSetting item(uint32_t type, int64_t integer, double real, std::string text) {
  plugin::OptionSetting value;
  value.type = type, value.given = true, value.integer = integer, value.real = real, value.text = std::move(text);
  return value;
}

// Values of one item of an option, ends and choices as the table has them.
std::vector<plugin::OptionSetting> values(const plugin::OptionSpec& option, Vary vary) {
  const uint32_t type = option.item_type();
  std::vector<plugin::OptionSetting> all;
  const bool integer = type == RESHARD_INTEGER || type == RESHARD_BYTES;
  if (vary == Vary::ends && integer) {
    for (const int64_t value : {option.integer_min, option.integer_max}) all.push_back(item(type, value, 0, ""));
  } else if (vary == Vary::ends && type == RESHARD_REAL) {
    for (const double value : {option.real_min, option.real_max}) all.push_back(item(type, 0, value, ""));
  } else if (vary == Vary::choices && type == RESHARD_BOOL) {
    for (const int64_t value : {0, 1}) all.push_back(item(type, value, 0, ""));
  } else if (vary == Vary::choices && type == RESHARD_CHOICE) {
    for (std::size_t i = 0; i < option.choices.size(); ++i)
      all.push_back(item(type, static_cast<int64_t>(i), 0, option.choices[i]));
  } else if (vary == Vary::texts && type == RESHARD_STRING) {
    for (const std::string& text :
         {std::string(), std::string(4096, 'x'), std::string("größer 大 😀"), std::string("*")})
      all.push_back(item(type, 0, 0, text));
  }
  return all;
}

std::string value_text(const plugin::OptionSetting& value) {
  std::string text = plugin::toml_text(value);
  if (text.size() > 60) text = fmt::format("a text of {} bytes", text.size());
  return text;
}

plugin::OptionSetting random_item(const plugin::OptionSpec& option, std::mt19937_64& random) {
  const uint32_t type = option.item_type();
  switch (type) {
    case RESHARD_BOOL: return item(type, static_cast<int64_t>(random() % 2), 0, "");
    case RESHARD_REAL: {
      const double share = static_cast<double>(random() % 1001) / 1000;
      const double low = std::max(option.real_min, -1e12), high = std::min(option.real_max, 1e12);
      return item(type, 0, std::clamp(low + share * (high - low), option.real_min, option.real_max), "");
    }
    case RESHARD_CHOICE: {
      const std::size_t which = random() % option.choices.size();
      return item(type, static_cast<int64_t>(which), 0, option.choices[which]);
    }
    case RESHARD_STRING: {
      static constexpr const char* words[] = {"", "root", "h.*", "h.1", "*", "größer", "no such unit"};
      return item(type, 0, 0, words[random() % std::size(words)]);
    }
    default: {
      // Small values more often than large ones: a range up to 2^63 would never be drawn small.
      const auto span = static_cast<uint64_t>(option.integer_max) - static_cast<uint64_t>(option.integer_min);
      const uint64_t drawn = random() >> (random() % 64);
      return item(type, option.integer_min + static_cast<int64_t>(span == UINT64_MAX ? drawn >> 1 : drawn % (span + 1)),
                  0, "");
    }
  }
}

int count(const char* folder) {
  const std::filesystem::directory_iterator begin(folder);
  return static_cast<int>(std::distance(begin, std::filesystem::directory_iterator()));
}

}  // namespace

Problem toy(int ranks, int ranks_per_node, const std::vector<int64_t>& bytes) {
  Problem problem;
  problem.ranks = ranks, problem.ranks_per_node = ranks_per_node, problem.microbatches = 2, problem.seed = 7;
  problem.budget_bytes = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    ProblemUnit unit;
    unit.name = i == 0 ? "root" : fmt::format("h.{}", i - 1);
    unit.parent = i == 0 ? -1 : 0;
    unit.root = i == 0;
    unit.bytes = unit.trainable_bytes = unit.gradient_bytes = bytes[i];
    unit.flops_forward = static_cast<double>(bytes[i]), unit.flops_backward = 2 * unit.flops_forward;
    unit.seconds_gather = static_cast<double>(bytes[i]) * 1e-9;
    problem.units.push_back(std::move(unit));
  }
  set_peak(problem);
  return problem;
}

Problem ordinary() {
  Problem problem = toy(8, 4, {4096, 65536, 65536, 131072, 65536, 65536, 8192});
  problem.budget_bytes = 1 << 20;
  return problem;
}

bool check_legal(const Subject& subject, const Problem& problem, const Result& result, const std::string& what) {
  check_refusal(subject, result, "decide", what);
  if (result.status != RESHARD_OK) return false;
  try {
    resolve(model_of(problem), problem.ranks, "the strategy", result.answers, {});
  } catch (const Error& error) {
    fail(fmt::format("{}: {}", what, error.message()));
  }
  return true;
}

Problem random_problem(std::mt19937_64& random) {
  static constexpr int kRanks[] = {1, 2, 3, 4, 6, 7, 8, 12, 13, 16, 60, 64, 97, 256, 1000, 1024};
  const int ranks = kRanks[random() % std::size(kRanks)];
  std::vector<int> nodes;
  for (int k = 1; k <= ranks; ++k)
    if (ranks % k == 0) nodes.push_back(k);
  std::vector<int64_t> bytes(1 + random() % 24);
  for (int64_t& size : bytes)
    size = random() % 5 == 0 ? 0 : static_cast<int64_t>((random() >> (24 + random() % 40)) / 256 * 256);
  Problem problem = toy(ranks, nodes[random() % nodes.size()], bytes);
  problem.microbatches = static_cast<int>(1 + random() % 9);
  problem.seed = random();
  for (std::size_t i = 1; i < problem.units.size(); ++i) {
    ProblemUnit& unit = problem.units[i];
    if (random() % 3 == 0) unit.parent = static_cast<int>(random() % i);
    if (random() % 4 == 0) unit.trainable_bytes = unit.gradient_bytes = 0;
    if (random() % 4 == 0) unit.flops_forward = unit.flops_backward = 0;
    if (random() % 4 == 0) unit.seconds_gather = 0;
  }
  set_peak(problem);
  const int64_t least = problem.predicted_peak({});
  static constexpr int kEighths[] = {0, 4, 8, 9, 12, 80};
  problem.budget_bytes = least / 8 * kEighths[random() % std::size(kEighths)];
  return problem;
}

Settings random_settings(const Subject& subject, std::mt19937_64& random) {
  Settings settings = subject.defaults();
  for (std::size_t i = 0; i < settings.size(); ++i) {
    const plugin::OptionSpec& option = subject.options()[i];
    if (random() % 2 == 0) continue;
    if (!option.list()) {
      settings[i] = random_item(option, random);
      continue;
    }
    settings[i] = item(option.type, 0, 0, "");
    for (std::size_t left = random() % 5; left > 0; --left) settings[i].items.push_back(random_item(option, random));
  }
  return settings;
}

std::vector<Variant> variants(const Subject& subject, Vary vary) {
  std::vector<Variant> all;
  for (std::size_t i = 0; i < subject.options().size(); ++i) {
    const plugin::OptionSpec& option = subject.options()[i];
    const auto add = [&](plugin::OptionSetting value) {
      value.given = true;
      all.push_back({fmt::format("with {} = {}", option.name, value_text(value)), subject.defaults()});
      all.back().settings[i] = std::move(value);
    };
    if (vary != Vary::lists && !option.list())
      for (plugin::OptionSetting& value : values(option, vary)) add(std::move(value));
    if (vary != Vary::lists || !option.list()) continue;
    plugin::OptionSetting list = item(option.type, 0, 0, "");
    add(list);
    for (const Vary each : {Vary::ends, Vary::choices, Vary::texts})
      for (plugin::OptionSetting& value : values(option, each)) list.items.push_back(std::move(value));
    add(list);
    const std::vector<plugin::OptionSetting> some = list.items;
    while (!some.empty() && list.items.size() < 100) list.items.insert(list.items.end(), some.begin(), some.end());
    add(list);
  }
  return all;
}

Held Held::now() {
  const auto heap = mallinfo2();
  return {static_cast<int64_t>(heap.uordblks + heap.hblkhd), count("/proc/self/task"), count("/proc/self/fd")};
}

void check_held(const Held& before, const Held& after, int times, const char* what) {
  if (after.threads > before.threads)
    fail(fmt::format("{} {} times leaves {} threads more", what, times, after.threads - before.threads));
  if (after.descriptors > before.descriptors)
    fail(fmt::format("{} {} times leaves {} descriptors more", what, times, after.descriptors - before.descriptors));
  if (after.bytes - before.bytes > int64_t{8} * times)  // the heap's least block is larger
    fail(fmt::format("{} {} times leaves {} bytes more on the heap, {} each time", what, times,
                     after.bytes - before.bytes, (after.bytes - before.bytes) / times));
}

}  // namespace reshard::conformance
