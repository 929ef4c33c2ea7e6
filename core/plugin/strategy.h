#pragma once

// A strategy that was loaded from a file, and instances of it that decide. This is the whole face of the C table
// towards the core: everything that crosses is checked here, in both directions.
// Threads: load and create may be called at the same time on any threads. An instance decides on one thread at a time;
// different instances may decide at once.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/file.h"
#include "plugin/log.h"
#include "reshard/job.h"
#include "reshard/options.h"
#include "strategy/problem.h"
#include "strategy/summary.h"

namespace reshard::plugin {

// One option of a strategy, in words, for `plugins describe`.
struct OptionInfo {
  std::string name;
  std::string type;      // "integer", "list of texts", …
  std::string fallback;  // its default as TOML: `1`, `"keep"`, `[]`; empty when the option is required
  std::string range;     // "0 … 8", `"keep" | "free"`, or empty
  std::string doc;
  bool required = false;
};

struct StrategyInfo {
  std::string name, version, vendor, summary, build;
  std::string abi;           // that it was built with: "1.0"
  std::string required_abi;  // the oldest that can run it
  std::filesystem::path file;
  std::string sha256;
  std::vector<OptionInfo> options;
  bool takes_feedback = false;  // it is told what steps show, and may ask to decide anew
};

class StrategyInstance;

// Copies share the loaded library. The library itself stays loaded to the end of the process.
class Strategy {
 public:
  // Inspects the file by `rules`, loads it and checks its tables. Throws Error(plugin) that names the file, what is wrong and what
  // to do. `where`: the place that names the file ("job.toml:5:1"), which then leads the error.
  // `log` receives what the strategy and the checks around it say; it must be callable on any thread for as long as the
  // strategy or an instance of it lives.
  static Strategy load(const std::filesystem::path& file, LogFunction log = {}, const std::string& where = {},
                       const Job::Plugins& rules = {});

  // Loads what inspect_bytes() has accepted, in this process and without asking whose it is: for the probe itself.
  static Strategy load(const FileInfo& file, LogFunction log = {});

  const StrategyInfo& info() const;

  // Checks `options` (what stands under [strategy.options.NAME]) against the strategy's table, fills in defaults and
  // makes an instance. Throws Error(config) at the option's place, or Error(plugin). `where`: the place that names the
  // strategy, to blame for a required option that is absent and for a problem that it cannot serve.
  StrategyInstance create(const OptionValues& options, const std::string& where = {}) const;

 private:
  friend class StrategyInstance;
  struct Loaded;
  static Strategy load_file(const FileInfo& file, bool probe, LogFunction log);
  explicit Strategy(std::shared_ptr<const Loaded> loaded);
  std::shared_ptr<const Loaded> loaded_;
};

class StrategyInstance {
 public:
  StrategyInstance(StrategyInstance&&) noexcept;
  StrategyInstance& operator=(StrategyInstance&&) noexcept;
  ~StrategyInstance();

  // Asks the strategy. Every answer is checked for being one (known unit, known words, prefetch inside its range, given
  // once); whether k divides the shard group is resolve's business. Throws Error(config) where the strategy blames an
  // option, Error(plan) where it cannot serve the problem, else Error(plugin); an error that problem.predicted_peak
  // threw is thrown on.
  Answers decide(const Problem& problem);

  // Whether it wants to know what steps show. Then decide may answer otherwise after tell() than before.
  bool takes_feedback() const;

  // Tells it of a step; true: it asks to decide anew before the next one. REQUIRES: takes_feedback(). Throws as decide.
  bool tell(const StepSummary& step);

  // Every option with its value after defaults, as TOML: {"prefetch_forward", "1"}, by name.
  const std::vector<std::pair<std::string, std::string>>& options() const;

 private:
  friend class Strategy;
  struct Running;
  explicit StrategyInstance(std::unique_ptr<Running> running);
  std::unique_ptr<Running> running_;
};

}  // namespace reshard::plugin
