#include "plugin/strategy.h"

#include <reshard/plugin.h>

#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "plugin/answers.h"
#include "plugin/feedback.h"
#include "plugin/file.h"
#include "plugin/host.h"
#include "plugin/library.h"
#include "plugin/option_table.h"
#include "plugin/options.h"
#include "plugin/status.h"
#include "reshard/error.h"

namespace reshard::plugin {
namespace {

// The one strategy of a library, once init has run.
const reshard_strategy& descriptor(const Library& library) {
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorCode::plugin, what, library.where(), kBuildAgain, "entry.table");
  };
  const reshard_entry& entry = library.entry();
  if (entry.strategy_count != 1 || entry.strategies == nullptr || entry.strategies[0] == nullptr)
    refuse(fmt::format("has {} strategies; a plugin has exactly one", entry.strategy_count));
  const reshard_strategy& strategy = *entry.strategies[0];
  if (strategy.struct_size < sizeof(reshard_strategy))
    refuse(fmt::format("has a strategy table of {} bytes; ABI 1.0 has {}", strategy.struct_size,
                       sizeof(reshard_strategy)));
  if (strategy.create == nullptr || strategy.destroy == nullptr || strategy.decide == nullptr)
    refuse("has a strategy without create, destroy or decide");
  if (view(strategy.name) != library.file().name || view(strategy.version) != library.file().version)
    refuse(fmt::format("contradicts itself: its table says {} {}", printable(view(strategy.name)),
                       printable(view(strategy.version))));
  return strategy;
}

// An error of create or decide as the user sees it. `values`: what the user gave, for the place of a blamed option.
// `where`: the place that names the strategy.
Error blame(const Library& library, const OptionValues& values, const std::string& where, const char* function,
            int32_t status, const Failure& failure) {
  const std::string& name = library.file().name;
  if (status == RESHARD_BAD_OPTION && !failure.key().empty())
    return {ErrorCode::config, fmt::format("strategy.options.{}.{}: {}", name, failure.key(), failure.reason()),
            place_of(values, failure.key())};
  if (status == RESHARD_BAD_PROBLEM)
    return {ErrorCode::plan, fmt::format("strategy {} cannot serve this job: {}", name, failure.reason()), where};
  return {ErrorCode::plugin, failure.text(function, status), library.where()};
}

}  // namespace

struct Strategy::Loaded {
  Loaded(Library& of, LogFunction to) : library(of), log(std::move(to)), user(library.join(log)) {}
  ~Loaded() { library.leave(user); }
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;

  Library& library;
  const LogFunction log;
  const uint64_t user;
  const reshard_strategy* table = nullptr;
  const reshard_feedback* feedback = nullptr;
  std::vector<OptionSpec> options;
  StrategyInfo info;
};

struct StrategyInstance::Running {
  Running(std::shared_ptr<const Strategy::Loaded> of, OptionValues given, std::string place,
          std::vector<OptionSetting> set)
      : loaded(std::move(of)),
        values(std::move(given)),
        where(std::move(place)),
        settings(std::move(set)),
        host(loaded->library.file().name, loaded->log) {}
  ~Running() {
    if (instance == nullptr) return;
    const std::lock_guard lock(loaded->library.control());
    loaded->library.call(Library::Call::destroy, loaded->log, [&] { loaded->table->destroy(instance); });
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  void create() {
    const SettingArray array(loaded->options, settings);
    Library& library = loaded->library;
    void* made = nullptr;
    Failure failure;
    const std::lock_guard lock(library.control());
    const int32_t status = library.call(Library::Call::create, loaded->log, [&] {
      return loaded->table->create(host.table(), array.data(), array.size(), &made, failure.raw());
    });
    if (status != RESHARD_OK) {
      if (made != nullptr && loaded->log)
        loaded->log(LogLevel::warn, library.file().name, "create failed and left an instance; it is not used");
      throw blame(library, values, where, "create", status, failure);
    }
    if (made == nullptr)
      throw Error(ErrorCode::plugin, "create made no instance and reported no failure", library.where());
    instance = made;
  }

  const std::shared_ptr<const Strategy::Loaded> loaded;
  const OptionValues values;
  const std::string where;  // the place that names the strategy
  const std::vector<OptionSetting> settings;  // one per option of the table, in its order
  std::vector<std::pair<std::string, std::string>> texts;
  Host host;
  void* instance = nullptr;
};

Strategy::Strategy(std::shared_ptr<const Loaded> loaded) : loaded_(std::move(loaded)) {}

Strategy Strategy::load(const std::filesystem::path& path, LogFunction log, const std::string& where,
                        const Job::Plugins& rules) {
  const auto load = [&] { return load_file(inspect(path, rules), rules.probe != "never", std::move(log)); };
  if (where.empty()) return load();
  try {
    return load();
  } catch (const Error& error) {  // at "plugin FILE": that becomes the subject of what is wrong
    throw Error(error.code(), error.where() + " " + error.message(), where, error.remedy(), error.id());
  }
}

Strategy Strategy::load(const FileInfo& file, LogFunction log) {
  return load_file(file, false, std::move(log));
}

Strategy Strategy::load_file(const FileInfo& file, bool probe, LogFunction log) {
  auto loaded = std::make_shared<Loaded>(Library::open(file, probe, log), log);
  loaded->table = &descriptor(loaded->library);
  loaded->options = read_option_table(*loaded->table, loaded->library.where());
  loaded->feedback = find_feedback(loaded->library, *loaded->table, loaded->log);
  const reshard_entry& entry = loaded->library.entry();
  StrategyInfo& info = loaded->info;
  info.name = file.name, info.version = file.version, info.file = file.path, info.sha256 = file.sha256;
  info.vendor = printable(view(entry.vendor)), info.build = printable(view(entry.build));
  info.summary = printable(view(loaded->table->summary));
  info.abi = fmt::format("{}.{}", entry.abi_major, entry.abi_minor);
  info.required_abi = fmt::format("{}.{}", entry.abi_major, entry.required_host_minor);
  info.takes_feedback = loaded->feedback != nullptr;
  for (const OptionSpec& option : loaded->options) info.options.push_back(describe(option));
  return Strategy(std::move(loaded));
}

const StrategyInfo& Strategy::info() const {
  return loaded_->info;
}

StrategyInstance Strategy::create(const OptionValues& options, const std::string& where) const {
  std::vector<OptionSetting> settings = check_options(loaded_->info.name, loaded_->options, options, where);
  auto running = std::make_unique<StrategyInstance::Running>(loaded_, options, where, std::move(settings));
  for (std::size_t i = 0; i < running->settings.size(); ++i)
    running->texts.emplace_back(loaded_->options[i].name, toml_text(running->settings[i]));
  running->create();
  return StrategyInstance(std::move(running));
}

StrategyInstance::StrategyInstance(std::unique_ptr<Running> running) : running_(std::move(running)) {}
StrategyInstance::StrategyInstance(StrategyInstance&&) noexcept = default;
StrategyInstance& StrategyInstance::operator=(StrategyInstance&&) noexcept = default;
StrategyInstance::~StrategyInstance() = default;

Answers StrategyInstance::decide(const Problem& problem) {
  const Strategy::Loaded& loaded = *running_->loaded;
  const ProblemTable table(problem);
  AnswerSink sink(problem);
  Failure failure;
  const int32_t status = loaded.library.call(Library::Call::decide, loaded.log, [&] {
    return loaded.table->decide(running_->instance, table.raw(), sink.table(), failure.raw());
  });
  sink.rethrow();
  if (!sink.refused().empty()) throw Error(ErrorCode::plugin, sink.refused(), loaded.library.where());
  if (status != RESHARD_OK) throw blame(loaded.library, running_->values, running_->where, "decide", status, failure);
  return sink.take();
}

bool StrategyInstance::takes_feedback() const {
  return running_->loaded->feedback != nullptr;
}

bool StrategyInstance::tell(const StepSummary& step) {
  const Strategy::Loaded& loaded = *running_->loaded;
  const SummaryTable table(step);
  Failure failure;
  uint32_t anew = 0;
  const int32_t status = loaded.library.call(Library::Call::feedback, loaded.log, [&] {
    return loaded.feedback->summary(running_->instance, table.raw(), &anew, failure.raw());
  });
  if (status != RESHARD_OK) throw blame(loaded.library, running_->values, running_->where, "feedback", status, failure);
  if (anew > 1)
    throw Error(ErrorCode::plugin, fmt::format("feedback asked for {}, not 0 or 1 (to decide anew)", anew),
                loaded.library.where());
  return anew == 1;
}

const std::vector<std::pair<std::string, std::string>>& StrategyInstance::options() const {
  return running_->texts;
}

}  // namespace reshard::plugin
