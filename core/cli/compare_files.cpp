#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "cli/compare_command.h"
#include "cli/json.h"
#include "cli/run_record.h"
#include "reshard/error.h"
#include "reshard/text.h"

namespace reshard::cli {
namespace {

// What two runs are compared by, read from one run's JSON.
struct FinishedRun {
  std::string file, strategy, plan_hash;
  std::vector<std::string> losses_hex;
  std::vector<double> losses, seconds;
  double samples_per_second = 0;
  std::string sample_unit;
  int64_t peak_bytes = 0, gathers = 0, reduces = 0, bytes_moved = 0;
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

FinishedRun run_of(const std::string& file, const Json& json) {
  FinishedRun run;
  run.file = file;
  for (const Json& step : json.at("steps")) {
    run.losses_hex.push_back(step.at("loss_hex"));
    run.losses.push_back(step.at("loss").is_null() ? std::nan("") : step.at("loss").get<double>());
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
    run.gathers = traffic.at("gather").at("count");
    run.reduces = traffic.at("reduce").at("count").get<int64_t>() + traffic.at("all_reduce").at("count").get<int64_t>();
    for (const char* op : {"gather", "reduce", "all_reduce"})
      run.bytes_moved += traffic.at(op).at("bytes").get<int64_t>();
  }
  flatten(json.at("job"), "", run.settings);
  return run;
}

FinishedRun read_run(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in)
    throw Error(ErrorCode::config, "cannot read the run", file, "check the path; PROGRAM train --json FILE writes one");
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
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

std::string settings_text(const FinishedRun& a, const FinishedRun& b, const Style& style) {
  base::TextTable table({"settings that differ", "first", "second"});
  int rows = 0;
  std::map<std::string, Json> all = a.settings;
  all.insert(b.settings.begin(), b.settings.end());
  const auto value = [](const FinishedRun& run, const std::string& key) {
    const auto found = run.settings.find(key);
    return found == run.settings.end() ? std::string("-") : found->second.dump();
  };
  for (const auto& [key, unused] : all) {
    if (value(a, key) == value(b, key)) continue;
    table.add({key, value(a, key), value(b, key)});
    ++rows;
  }
  return rows == 0 ? "the jobs are the same\n" : style.table(table);
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
  add("gathers", count, static_cast<double>(a.gathers), static_cast<double>(b.gathers));
  add("reduces", count, static_cast<double>(a.reduces), static_cast<double>(b.reduces));
  add("bytes received", bytes, static_cast<double>(a.bytes_moved), static_cast<double>(b.bytes_moved));
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
          {"gathers", run.gathers},
          {"reduces", run.reduces},
          {"bytes_received", run.bytes_moved},
          {"seconds_exposed", run.seconds_exposed}};
}

}  // namespace

void compare_files(const Request& request, Output& output) {
  const FinishedRun a = read_run(request.line.files[0]);
  const FinishedRun b = read_run(request.line.files[1]);
  const std::string losses = loss_verdict(a, b);
  write_json(request.line.json, {{"program", request.face.name},
                                 {"command", "compare"},
                                 {"paired", false},
                                 {"runs", {run_json(a), run_json(b)}},
                                 {"losses", losses.substr(0, losses.size() - 1)}});
  const Style& style = output.style();
  output.print(runs_text(a, b, style) + "\n" + losses + "\n" + settings_text(a, b, style) + "\n");
  output.print(
      "These runs are unpaired: they ran at different times, and their ratios hold whatever else the machine did "
      "then.\n");
}

}  // namespace reshard::cli
