// entry.*: the tables, first as the host checks them, then what only a test looks at.

#include <cstring>
#include <initializer_list>
#include <string_view>

#include <fmt/format.h>

#include "conformance/subject.h"
#include "plugin/file.h"
#include "plugin/strategy.h"
#include "reshard/error.h"

namespace reshard::conformance {
namespace {

using plugin::view;

void load_for(const Trial& trial, std::initializer_list<std::string_view> ids) {
  try {
    plugin::Strategy::load(plugin::inspect_bytes(trial.path, trial.bytes));
  } catch (const Error& error) {
    for (const std::string_view id : ids)
      if (error.id() == id) fail(fmt::format("it {} ({})", error.message(), error.remedy()));
    skip(fmt::format("it is refused before that is looked at: it {}", error.message()));
  }
}

void binds(const Trial& trial) {
  load_for(trial, {"load.symbol", "load.dependency", "load.failed", "load.copy"});
}
void owner(const Trial& trial) {
  load_for(trial, {"entry.owner", "entry.symbol"});
}
void magic(const Trial& trial) {
  load_for(trial, {"entry.magic", "entry.size"});
}
void versions(const Trial& trial) {
  load_for(trial, {"entry.versions"});
}
void init(const Trial& trial) {
  load_for(trial, {"load.init"});
}
void table(const Trial& trial) {
  load_for(trial, {"entry.table"});
}
void options(const Trial& trial) {
  load_for(trial, {"entry.options"});
}

const reshard_option& row(const reshard_strategy& strategy, uint32_t index) {
  return *reinterpret_cast<const reshard_option*>(reinterpret_cast<const char*>(strategy.options) +
                                                  std::size_t{index} * strategy.option_size);
}

void texts(const Trial& trial) {
  const Subject subject(trial);
  const auto check = [](reshard_text text, const std::string& what, bool may_be_empty) {
    if (text.size > 0 && text.data == nullptr) fail(what + " has a size and no bytes");
    if (text.size == 0 && !may_be_empty) fail(what + " is empty");
    if (!is_utf8(view(text))) fail(what + " is no UTF-8");
    if (view(text).find('\n') != std::string_view::npos) fail(what + " has more than one line");
  };
  check(subject.entry().vendor, "the vendor", true);
  check(subject.entry().build, "the build", true);
  check(subject.table().summary, "the summary", false);
  for (uint32_t i = 0; i < subject.table().option_count; ++i) {
    const reshard_option& option = row(subject.table(), i);
    const std::string name = fmt::format("option {}'s ", view(option.name));
    check(option.doc, name + "doc", false);
    for (uint32_t k = 0; option.type == RESHARD_CHOICE && k < option.choice_count; ++k)
      check(option.choices[k], name + "choice", false);
  }
}

void reserved(const Trial& trial) {
  const Subject subject(trial);
  const auto check = [](uint64_t value, const std::string& what) {
    if (value != 0) fail(fmt::format("{} is {:#x}, not 0", what, value));
  };
  check(subject.entry().reserved, "reserved of the entry");
  check(subject.entry().reserved2, "reserved2 of the entry");
  check(subject.entry().flags, "flags of the entry, of which ABI 1.0 has none,");
  check(subject.table().flags, "flags of the strategy, of which ABI 1.0 has none,");
  for (uint32_t i = 0; i < subject.table().option_count; ++i) {
    const reshard_option& option = row(subject.table(), i);
    check(option.reserved, fmt::format("reserved of option {}", view(option.name)));
    check(option.fallback.reserved, fmt::format("reserved of option {}'s default", view(option.name)));
  }
}

// What the tables say, as text.
std::string tables_text(const Subject& subject) {
  const reshard_strategy& strategy = subject.table();
  std::string text = fmt::format("{} {} {}\n", view(strategy.name), view(strategy.version), view(strategy.summary));
  for (const plugin::OptionSpec& option : plugin::read_option_table(strategy, "the plugin"))
    text += fmt::format("{} {} {} {}\n", option.name, plugin::type_text(option), plugin::range_text(option),
                        plugin::toml_text(option.fallback));
  return text;
}

void stable(const Trial& trial) {
  Subject subject(trial);
  const std::string before = tables_text(subject);
  {
    const Instance instance(subject);
    instance.decide({.units = {{.name = "root", .root = true}}, .predicted_peak = {}});
  }
  if (const std::string after = tables_text(subject); after != before)
    fail(fmt::format("before and after an instance it says {}", difference(before, after)));
  subject.deinit();
  subject.init();
  if (const std::string after = tables_text(subject); after != before)
    fail(fmt::format("after the first and the second init it says {}", difference(before, after)));
}

constexpr Test kTests[] = {
    {"load.binds", "the plugin loads with every symbol bound", Level::quick, Gate::yes, binds},
    {"entry.owner", "the entry lies in the plugin's own file", Level::quick, Gate::yes, owner},
    {"entry.magic", "the entry begins as ABI 1.0 says", Level::quick, Gate::yes, magic},
    {"entry.versions", "the entry and the note say the same versions", Level::quick, Gate::yes, versions},
    {"entry.init", "init succeeds", Level::quick, Gate::yes, init},
    {"entry.table", "there is one strategy, whole, named as the note says", Level::quick, Gate::yes, table},
    {"entry.options", "every option has a name, a type and a default in its range", Level::quick, Gate::yes, options},
    {"entry.texts", "texts for people are there, in one line of UTF-8", Level::quick, Gate::no, texts},
    {"entry.reserved", "reserved members and unused flags are 0", Level::quick, Gate::no, reserved},
    {"entry.stable", "the tables stay as init has left them", Level::full, Gate::no, stable},
};

}  // namespace

std::span<const Test> entry_tests() {
  return kTests;
}

}  // namespace reshard::conformance
