#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "cli/compare_command.h"
#include "cli/report_file.h"
#include "cli/run_record.h"
#include "config/read.h"
#include "reshard/error.h"
#include "reshard/text.h"

namespace reshard::cli {
namespace {

constexpr std::size_t kMostBytesOfRun = std::size_t{1} << 30;  // of its JSON: three million steps

// What two runs are compared by, read from one run's JSON.
struct FinishedRun {
  std::string file, strategy, plan_hash;
  std::vector<std::string> losses_hex;
  std::vector<double> losses, lr, seconds;
  double samples_per_second = 0;
  std::string sample_unit;
  int64_t peak_bytes = 0;
  TrafficByOp traffic;
  double seconds_exposed = 0;  // of the whole run
  std::map<std::string, Json> settings;
  double final_loss() const { return losses.empty() ? std::nan("") : losses.back(); }  // no number: no step
};

// Every scalar and list of the job, by its path. Where a value was given and how the file spells it is no setting.
void flatten(const Json& json, const std::string& path, std::map<std::string, Json>& out) {
  for (const auto& [key, value] : json.items()) {
    if (path.empty() && (key == "where" || key == "toml" || key == "file")) continue;
    const std::string name = path.empty() ? key : path + "." + key;
    if (value.is_object())
      flatten(value, name, out);
    else
      out[name] = value;
  }
}

Traffic traffic_of(const Json& json) {
  return {json.at("count"), json.at("bytes"), json.at("seconds"), json.at("seconds_exposed")};
}

FinishedRun run_of(const std::string& file, const Json& json) {
  FinishedRun run;
  run.file = file;
  for (const Json& step : json.at("steps")) {
    run.losses_hex.push_back(step.at("loss_hex"));
    run.losses.push_back(step.at("loss").is_null() ? std::nan("") : step.at("loss").get<double>());
    run.lr.push_back(step.at("lr"));
    run.seconds.push_back(step.at("seconds"));
    run.seconds_exposed += step.at("seconds_exposed").get<double>();
  }
  run.strategy = json.at("plan").at("strategy");
  run.plan_hash = json.at("plan").at("hash");
  const Json& time = json.at("time");
  run.samples_per_second = time.value("samples_per_second", 0.0);
  run.sample_unit = time.value("sample_unit", "");
  if (const Json& phases = json.at("memory").at("phases"); !phases.empty())
    for (const Json& phase : phases)
      run.peak_bytes = std::max(run.peak_bytes, phase.at("measured").at("total").get<int64_t>());
  if (json.contains("traffic")) {
    const Json& traffic = json.at("traffic");
    run.traffic = {traffic_of(traffic.at("gather")), traffic_of(traffic.at("shrink")), traffic_of(traffic.at("reduce")),
                   traffic_of(traffic.at("all_reduce")), traffic_of(traffic.at("relay"))};
  }
  flatten(json.at("job"), "", run.settings);
  return run;
}

FinishedRun read_run(const std::string& file) {
  const std::string text = config::file_text(file, {.name = "run",
                                                    .remedy = "give the path of a file of train --json",
                                                    .remedy_missing = "check the path; train --json FILE writes one",
                                                    .bytes_most = kMostBytesOfRun});
  try {
    return run_of(file, Json::parse(text));
  } catch (const Json::exception&) {
    throw Error(ErrorCode::config, "this is no finished run", file, "give two files that train --json wrote");
  }
}

std::string loss_verdict(const FinishedRun& a, const FinishedRun& b) {
  const std::size_t common = std::min(a.losses.size(), b.losses.size());
  if (common == 0) return "no steps in common\n";
  double largest = 0;
  std::optional<std::size_t> first;
  for (std::size_t i = 0; i < common; ++i) {
    if (a.losses_hex[i] == b.losses_hex[i]) continue;
    if (!first) first = i;
    const double scale = std::max(std::fabs(a.losses[i]), std::fabs(b.losses[i]));
    largest = std::max(largest, std::fabs(a.losses[i] - b.losses[i]) / (scale > 0 ? scale : 1));
  }
  if (!first)
    return fmt::format("losses: identical in all {} common steps\n", base::count_text(static_cast<int64_t>(common)));
  return fmt::format("losses: differ by up to {:.1e} in {} common steps, first at step {}\n", largest,
                     base::count_text(static_cast<int64_t>(common)), *first);
}

// Losses after different learning rates are those of different trainings, whatever the strategies do.
std::string lr_verdict(const FinishedRun& a, const FinishedRun& b) {
  const std::size_t common = std::min(a.lr.size(), b.lr.size());
  for (std::size_t i = 0; i < common; ++i)
    if (a.lr[i] != b.lr[i])
      return fmt::format(
          "learning rates: differ first at step {} ({:.3e}, {:.3e}), so the losses after it are of two trainings\n", i,
          a.lr[i], b.lr[i]);
  if (a.lr.size() == b.lr.size()) return "";
  return fmt::format("steps: {} and {}; learning rates are the same in the common ones\n",
                     base::count_text(static_cast<int64_t>(a.lr.size())),
                     base::count_text(static_cast<int64_t>(b.lr.size())));
}

// A setting that differs: null in the run that has none of this name.
struct Difference {
  std::string key;
  Json first, second;
};

std::vector<Difference> differing_settings(const FinishedRun& a, const FinishedRun& b) {
  std::map<std::string, Json> all = a.settings;
  all.insert(b.settings.begin(), b.settings.end());
  const auto value = [](const FinishedRun& run, const std::string& key) {
    const auto found = run.settings.find(key);
    return found == run.settings.end() ? Json() : found->second;
  };
  std::vector<Difference> differences;
  for (const auto& [key, unused] : all)
    if (value(a, key) != value(b, key)) differences.push_back({key, value(a, key), value(b, key)});
  return differences;
}

std::string settings_text(const std::vector<Difference>& differences, const Style& style) {
  if (differences.empty()) return "the jobs are the same\n";
  base::TextTable table({"settings that differ", "first", "second"});
  const auto text = [](const Json& value) { return value.is_null() ? "-" : value.dump(); };
  for (const Difference& one : differences) table.add({one.key, text(one.first), text(one.second)});
  return style.table(table);
}

Json settings_json(const std::vector<Difference>& differences) {
  Json json = Json::object();
  for (const Difference& one : differences) json[one.key] = {{"first", one.first}, {"second", one.second}};
  return json;
}

std::string runs_text(const FinishedRun& a, const FinishedRun& b, const Style& style) {
  base::TextTable table({"run", "first", "second", "second / first"});
  const auto add = [&](const char* label, const auto& text, double first, double second) {
    const double ratio = first > 0 ? second / first : std::nan("");
    table.add({label, text(first), text(second), std::isfinite(ratio) ? fmt::format("{:.3f}", ratio) : "-"});
  };
  const auto bytes = [](double value) { return base::bytes_text(std::llround(value)); };
  const auto count = [](double value) { return base::count_text(std::llround(value)); };
  const auto loss = [](double value) { return std::isnan(value) ? "-" : fmt::format("{:.5f}", value); };
  const auto seconds = [](double value) { return base::seconds_text(value); };
  add("steps", count, static_cast<double>(a.losses.size()), static_cast<double>(b.losses.size()));
  add("step time, median", seconds, median(a.seconds), median(b.seconds));
  if (a.sample_unit == b.sample_unit && !a.sample_unit.empty())
    add((a.sample_unit + "/s").c_str(), count, a.samples_per_second, b.samples_per_second);
  add("last loss", loss, a.final_loss(), b.final_loss());
  add("peak", bytes, static_cast<double>(a.peak_bytes), static_cast<double>(b.peak_bytes));
  const auto add_count = [&](const char* label, const Traffic& first, const Traffic& second) {
    add(label, count, static_cast<double>(first.count), static_cast<double>(second.count));
  };
  add_count("gathers", a.traffic.gather, b.traffic.gather);
  add_count("reduces", a.traffic.reduce, b.traffic.reduce);
  add_count("all-reduces", a.traffic.all_reduce, b.traffic.all_reduce);
  add("bytes received", bytes, static_cast<double>(a.traffic.of_steps().bytes),
      static_cast<double>(b.traffic.of_steps().bytes));
  add("exposed", seconds, a.seconds_exposed, b.seconds_exposed);
  std::string text = rows_text({{"first", fmt::format("{}: {}, plan {}", a.file, a.strategy, a.plan_hash)},
                                {"second", fmt::format("{}: {}, plan {}", b.file, b.strategy, b.plan_hash)}});
  if (a.plan_hash == b.plan_hash) text += "the same plan\n";
  return text + "\n" + style.table(table);
}

Json run_json(const FinishedRun& run) {
  return {{"file", run.file},
          {"strategy", run.strategy},
          {"plan_hash", run.plan_hash},
          {"steps", run.losses.size()},
          {"step_seconds_median", median(run.seconds)},
          {"samples_per_second", run.samples_per_second},
          {"last_loss", run.final_loss()},
          {"peak_bytes", run.peak_bytes},
          {"gathers", run.traffic.gather.count},
          {"reduces", run.traffic.reduce.count},
          {"all_reduces", run.traffic.all_reduce.count},
          {"bytes_received", run.traffic.of_steps().bytes},
          {"seconds_exposed", run.seconds_exposed}};
}

}  // namespace

void compare_files(const Request& request, Output& output) {
  const FinishedRun a = read_run(request.line.files[0]);
  const FinishedRun b = read_run(request.line.files[1]);
  const std::string losses = loss_verdict(a, b), rates = lr_verdict(a, b);
  const std::vector<Difference> differences = differing_settings(a, b);
  const auto without_end = [](const std::string& text) { return text.substr(0, text.find('\n')); };
  write_json(request.line.json, {{"program", request.face.name},
                                 {"command", "compare"},
                                 {"paired", false},
                                 {"runs", {run_json(a), run_json(b)}},
                                 {"losses", without_end(losses)},
                                 {"learning_rates", without_end(rates)},
                                 {"settings_that_differ", settings_json(differences)}});
  const Style& style = output.style();
  output.print(runs_text(a, b, style) + "\n" + losses + rates + "\n" + settings_text(differences, style) + "\n");
  output.print(
      "These runs are unpaired: they ran at different times, and their ratios hold whatever else the machine did "
      "then.\n");
}

}  // namespace reshard::cli
