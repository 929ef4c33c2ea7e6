#include "tests/schedule/trace_file.h"

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace reshard::schedule {
namespace {

using Json = nlohmann::ordered_json;

// Reads one object's keys; every key must be known.
class Object {
 public:
  Object(const Json& json, std::string where, const std::set<std::string>& known)
      : json_(json), where_(std::move(where)) {
    if (!json.is_object()) fail("must be an object");
    for (const auto& [key, value] : json.items())
      if (!known.contains(key)) fail(fmt::format("unknown key \"{}\"", key));
  }

  const Json& at(const std::string& key) const {
    if (!json_.contains(key)) fail(fmt::format("has no \"{}\"", key));
    return json_.at(key);
  }
  std::string text(const std::string& key) const {
    if (!at(key).is_string()) fail(fmt::format("\"{}\" must be a text", key));
    return at(key).get<std::string>();
  }
  int integer(const std::string& key, int least, int most) const {
    const Json& value = at(key);
    if (!value.is_number_integer() || value.get<int64_t>() < least || value.get<int64_t>() > most)
      fail(fmt::format("\"{}\" must be an integer from {} to {}", key, least, most));
    return value.get<int>();
  }
  bool flag(const std::string& key, bool otherwise = false) const {
    if (!json_.contains(key)) return otherwise;
    if (!at(key).is_boolean()) fail(fmt::format("\"{}\" must be true or false", key));
    return at(key).get<bool>();
  }
  template <typename T>
  T choice(const std::string& key, const char* first, T first_value, const char* second, T second_value) const {
    const std::string word = text(key);
    if (word == first) return first_value;
    if (word == second) return second_value;
    fail(fmt::format("\"{}\" must be \"{}\" or \"{}\", not \"{}\"", key, first, second, word));
  }
  [[noreturn]] void fail(const std::string& what) const { throw std::runtime_error(where_ + ": " + what); }
  const std::string& where() const { return where_; }

 private:
  const Json& json_;
  std::string where_;
};

AfterForward after_forward(const Object& unit, int shards) {
  const Json& value = unit.at("after_forward");
  if (value == "free") return AfterForward::free();
  if (value == "keep") return AfterForward::keep();
  if (!value.is_number_integer()) unit.fail("\"after_forward\" must be \"free\", \"keep\" or an integer");
  const int64_t k = value.get<int64_t>();
  if (k == 1) return AfterForward::keep();
  if (k == shards) return AfterForward::free();
  if (k < 1 || shards % k != 0)
    unit.fail(fmt::format("\"after_forward\" = {} does not divide the {} shards", k, shards));
  return AfterForward::shrink(static_cast<int>(k));
}

TracedUnit read_unit(const Json& json, const std::string& where, int shards) {
  const Object unit(json, where,
                    {"name", "after_forward", "after_backward", "reduce", "prefetch_forward", "prefetch_backward",
                     "frozen", "recompute", "empty", "unused", "needs_parameters_in_backward"});
  TracedUnit read;
  read.name = unit.text("name");
  read.decision.after_forward = after_forward(unit, shards);
  read.decision.after_backward =
      unit.choice("after_backward", "free", AfterBackward::free, "keep", AfterBackward::keep);
  read.decision.reduce = unit.choice("reduce", "each", Reduce::each, "last", Reduce::last);
  read.decision.prefetch_forward = unit.integer("prefetch_forward", 0, kMaxPrefetch);
  read.decision.prefetch_backward = unit.integer("prefetch_backward", 0, kMaxPrefetch);
  read.frozen = unit.flag("frozen");
  read.recompute = unit.flag("recompute");
  read.empty = unit.flag("empty");
  read.unused = unit.flag("unused");
  read.read_in_backward = unit.flag("needs_parameters_in_backward", true);
  return read;
}

const std::set<std::string> kWords = {"micro_batch", "evaluate", "update", "forward",    "backward",
                                      "gather",      "free",     "shrink", "reduce", "all_reduce"};

std::string event_text(const Json& event, const std::string& where) {
  if (!event.is_array() || event.empty() || !event[0].is_string())
    throw std::runtime_error(where + ": must be a list of a word, a unit and a number");
  std::string text;
  for (const Json& part : event) {
    if (!part.is_string() && !part.is_number_integer())
      throw std::runtime_error(where + ": must be a list of a word, a unit and a number");
    if (!text.empty()) text += ' ';
    text += part.is_string() ? part.get<std::string>() : std::to_string(part.get<int64_t>());
  }
  if (!kWords.contains(event[0])) throw std::runtime_error(where + ": unknown event \"" + text + "\"");
  return text;
}

// What the program did.
void read_steps(Trace& trace, const std::string& where) {
  TracedStep step;
  const auto fail = [&](std::size_t at, const std::string& what) {
    throw std::runtime_error(fmt::format("{}: event {}: {}", where, at, what));
  };
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    const std::string& event = trace.events[i];
    if (event == "evaluate") {
      ++step.evaluations;
      if (step.microbatches > 0)
        trace.skipped = "it evaluates between the micro-batches of a step; a forward-only pass stands between steps";
    } else if (event.starts_with("micro_batch")) {
      const std::string due = fmt::format("micro_batch {}", step.microbatches++);
      if (event != due) fail(i, fmt::format("\"{}\" comes where \"{}\" is due", event, due));
    } else if (event == "update") {
      if (step.microbatches == 0) fail(i, "an update of a step without micro-batches");
      trace.steps.push_back(std::exchange(step, {}));
    }
  }
  if (step.microbatches > 0) fail(trace.events.size() - 1, "the last step has no update");
  if (step.evaluations > 0) trace.steps.push_back(step);
}

Trace read_trace(const std::string& name, const Json& json, const std::string& where) {
  const Object trace(json, where, {"settings", "events"});
  const Object settings(trace.at("settings"), where + ": settings",
                        {"ranks", "shard_over", "all_reduce", "micro_batches", "evaluate_between", "root", "units"});
  const Json& events = trace.at("events");
  if (!events.is_array() || events.empty()) trace.fail("\"events\" must be a list that is not empty");
  Trace read;
  read.name = name;
  if (events[0].is_array() && !events[0].empty() && events[0][0] == "error") {
    read.skipped = "PyTorch has no sequence: " + events[0].dump();
    return read;
  }
  read.ranks = settings.integer("ranks", 1, 1 << 20);
  read.shards = settings.integer("shard_over", 0, 1 << 20);
  if (read.shards == 0) read.shards = read.ranks;
  if (read.ranks % read.shards != 0)
    settings.fail(fmt::format("\"shard_over\" = {} does not divide the {} ranks", read.shards, read.ranks));
  read.microbatches = settings.integer("micro_batches", 1, 1 << 20);
  read.all_reduce = settings.choice("all_reduce", "each", AllReduce::each, "last", AllReduce::last);
  read.units.push_back(read_unit(settings.at("root"), settings.where() + ": root", read.shards));
  const Json& units = settings.at("units");
  if (!units.is_array()) settings.fail("\"units\" must be a list");
  for (std::size_t i = 0; i < units.size(); ++i)
    read.units.push_back(read_unit(units[i], fmt::format("{}: unit {}", settings.where(), i), read.shards));
  for (std::size_t i = 0; i < events.size(); ++i)
    read.events.push_back(event_text(events[i], fmt::format("{}: event {}", where, i)));
  read_steps(read, where);
  const int ran = read.steps.empty() ? 0 : read.steps[0].microbatches;
  if (read.skipped.empty() && ran != read.microbatches)
    settings.fail(fmt::format("\"micro_batches\" = {}, but the first step has {}", read.microbatches, ran));
  if (settings.flag("evaluate_between") && std::count(read.events.begin(), read.events.end(), "evaluate") == 0)
    settings.fail("\"evaluate_between\" is true, but the events evaluate nothing");
  return read;
}

}  // namespace

std::vector<Trace> parse_traces(const std::string& text, const std::string& path) {
  Json file;
  try {
    file = Json::parse(text);
  } catch (const Json::exception& error) {
    throw std::runtime_error(path + ": not JSON: " + error.what());
  }
  if (!file.is_object() || file.empty())
    throw std::runtime_error(path + ": must be an object of traces that is not empty");
  std::vector<Trace> traces;
  for (const auto& [name, trace] : file.items())
    traces.push_back(read_trace(name, trace, fmt::format("{}: trace \"{}\"", path, name)));
  return traces;
}

std::vector<Trace> read_traces(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path + ": cannot be read");
  std::stringstream text;
  text << file.rdbuf();
  return parse_traces(text.str(), path);
}

}  // namespace reshard::schedule
