#include "conformance/subject.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "plugin/options.h"
#include "reshard/error.h"

namespace reshard::conformance {
namespace {

// ": the text of an error", or that there is none.
std::string said(const std::string& text) {
  return text.empty() ? ", without a text" : ": " + text;
}

constexpr unsigned char kGarbage = 0xA5;

int32_t log_nothing(void*, uint32_t) {
  return 0;
}
void drop(void*, uint32_t, reshard_text) {}
const void* no_extension(void*, reshard_text) {
  return nullptr;
}

// The settings with every text followed by more bytes.
class LooseSettings {
 public:
  explicit LooseSettings(const plugin::SettingArray& array) : settings_(array.data(), array.data() + array.size()) {
    for (const reshard_setting& setting : settings_)
      texts_.push_back(copy(setting.name)), texts_.push_back(copy(setting.value.text));
    for (std::size_t i = 0; i < settings_.size(); ++i)
      settings_[i].name.data = texts_[2 * i].data(), settings_[i].value.text.data = texts_[2 * i + 1].data();
  }
  LooseSettings(const LooseSettings&) = delete;
  LooseSettings& operator=(const LooseSettings&) = delete;
  const reshard_setting* data() const { return settings_.data(); }

 private:
  static std::string copy(reshard_text text) { return std::string(plugin::view(text)) + "#more"; }
  std::vector<reshard_setting> settings_;
  std::vector<std::string> texts_;
};

}  // namespace

HostTable::HostTable(bool later) : raw_{} {
  std::memset(raw_.tail, kGarbage, sizeof raw_.tail);
  raw_.head.struct_size = static_cast<uint32_t>(later ? sizeof raw_ : sizeof raw_.head);
  raw_.head.abi_major = RESHARD_ABI_MAJOR;
  raw_.head.abi_minor = static_cast<uint16_t>(later ? RESHARD_ABI_MINOR + 7 : RESHARD_ABI_MINOR);
  raw_.head.name = plugin::text("reshard-probe");
  raw_.head.version = plugin::text("1.0.0");
  raw_.head.context = &raw_;
  raw_.head.log_enabled = &log_nothing;
  raw_.head.log = &drop;
  raw_.head.get_extension = &no_extension;
}

ErrorBuffer::ErrorBuffer(const Manner& manner) : raw_{}, size_(manner.error_size), null_(manner.null_error) {
  auto* bytes = reinterpret_cast<unsigned char*>(&raw_);
  if (size_ < sizeof raw_) std::memset(bytes + size_, kGarbage, sizeof raw_ - size_);
  raw_.head.struct_size = size_;
}

void ErrorBuffer::check(const char* function) const {
  const auto* bytes = reinterpret_cast<const unsigned char*>(&raw_);
  for (std::size_t i = size_; i < sizeof raw_; ++i)
    if (bytes[i] != kGarbage)
      fail(fmt::format("{} wrote into byte {} of an error buffer of {} bytes", function, i, size_));
  if (size_ < sizeof(reshard_error) || null_) return;
  if (raw_.head.text_size > sizeof raw_.head.text || raw_.head.key_size > sizeof raw_.head.key)
    fail(fmt::format("{} says that its error has {} bytes of text and {} of key; {} and {} are the most", function,
                     raw_.head.text_size, raw_.head.key_size, sizeof raw_.head.text, sizeof raw_.head.key));
}

std::string ErrorBuffer::text() const {
  if (size_ < sizeof(reshard_error)) return {};
  return {raw_.head.text, std::min<std::size_t>(raw_.head.text_size, sizeof raw_.head.text)};
}

std::string ErrorBuffer::key() const {
  if (size_ < sizeof(reshard_error)) return {};
  return {raw_.head.key, std::min<std::size_t>(raw_.head.key_size, sizeof raw_.head.key)};
}

Subject::Subject(const Trial& trial, const Manner& manner) : manner_(manner), host_(manner.tails) {
  try {
    library_ = &plugin::Library::open(plugin::inspect_bytes(trial.path, trial.bytes), false, {});
    init();
    options_ = plugin::read_option_table(table(), "the plugin");
  } catch (const Error& error) {
    fail(error.message());
  }
}

Subject::~Subject() {
  deinit();
}

void Subject::init() {
  if (inited_) return;
  if (entry().init != nullptr) {
    ErrorBuffer error(manner_);
    const int32_t status = entry().init(host_.raw(), error.raw());
    error.check("init");
    if (status != RESHARD_OK) fail(fmt::format("init returned {}{}", status_text(status), said(error.text())));
  }
  inited_ = true;
}

void Subject::deinit() {
  if (std::exchange(inited_, false) && entry().deinit != nullptr) entry().deinit();
}

Settings Subject::defaults() const {
  Settings settings;
  for (const plugin::OptionSpec& option : options_) settings.push_back(some_value(option));
  return settings;
}

Result Subject::create(const Settings& settings, void** instance, const Manner& manner) const {
  const plugin::SettingArray array(options_, settings);
  const LooseSettings loose(array);
  const reshard_setting* const raw = manner.loose_names ? loose.data() : array.data();
  ErrorBuffer error(manner);
  Result result;
  *instance = nullptr;
  result.status = table().create(host_.raw(), raw, array.size(), instance, error.raw());
  error.check("create");
  result.text = error.text(), result.key = error.key();
  if (result.status == RESHARD_OK && *instance == nullptr) fail("create returned RESHARD_OK and made no instance");
  if (result.status != RESHARD_OK && *instance != nullptr)
    fail(fmt::format("create returned {} and left an instance", status_text(result.status)));
  return result;
}

Instance::Instance(const Subject& subject, const Settings& settings, const Manner& manner) : subject_(subject) {
  const Result made = subject.create(settings, &raw_, manner);
  if (made.status != RESHARD_OK) fail(fmt::format("create returned {}{}", status_text(made.status), said(made.text)));
}

void Instance::end() {
  if (void* const raw = std::exchange(raw_, nullptr)) subject_.destroy(raw);
}

plugin::OptionSetting some_value(const plugin::OptionSpec& option) {
  if (!option.required) return option.fallback;
  plugin::OptionSetting value;
  value.type = option.type, value.given = true;
  if (option.list()) return value;
  value.integer = std::clamp<int64_t>(1, option.integer_min, std::max(option.integer_min, option.integer_max));
  value.real = std::clamp(1.0, option.real_min, std::max(option.real_min, option.real_max));
  if (option.type == RESHARD_BOOL || option.type == RESHARD_CHOICE) value.integer = 0;
  if (option.type == RESHARD_CHOICE) value.text = option.choices.front();
  if (option.type == RESHARD_STRING) value.text = "x";
  return value;
}

void check_refusal(const Subject& subject, const Result& result, const std::string& function, const std::string& what) {
  if (result.status == RESHARD_OK) return;
  if (result.status != RESHARD_BAD_OPTION && result.status != RESHARD_BAD_PROBLEM)
    fail(fmt::format("{} returned {} {}{}", function, status_text(result.status), what, said(result.text)));
  if (result.text.empty())
    fail(fmt::format("{} returned {} {}, without a text", function, status_text(result.status), what));
  if (!is_utf8(result.text)) fail(fmt::format("{} explains a failure {} in bytes that are no UTF-8", function, what));
  if (result.status != RESHARD_BAD_OPTION) return;
  const std::string key = result.key.substr(0, result.key.find('['));
  for (const plugin::OptionSpec& option : subject.options())
    if (option.name == key) return;
  fail(fmt::format("{} returned RESHARD_BAD_OPTION {} and names the option \"{}\", which it does not have", function,
                   what, result.key));
}

std::string answers_text(const Problem& problem, const Result& result) {
  if (result.status != RESHARD_OK)
    return fmt::format("{}: {} {}\n", status_text(result.status), result.key, result.text);
  const auto number = [](const std::optional<int>& value) { return value ? std::to_string(*value) : std::string("-"); };
  std::string text;
  for (std::size_t i = 0; i < result.answers.units.size(); ++i) {
    const UnitAnswer& unit = result.answers.units[i];
    text += fmt::format("unit {}: {} {} {} {} {} \"{}\"\n", problem.units[i].name,
                        unit.after_forward ? value_text(*unit.after_forward) : "-",
                        unit.after_backward ? value_text(*unit.after_backward) : "-",
                        unit.reduce ? value_text(*unit.reduce) : "-", number(unit.prefetch_forward),
                        number(unit.prefetch_backward), unit.reason);
  }
  return text + fmt::format("plan: {} {} \"{}\"\n", number(result.answers.shard_over),
                            result.answers.all_reduce ? value_text(*result.answers.all_reduce) : "-",
                            result.answers.plan_reason);
}

std::string difference(const std::string& one, const std::string& other) {
  std::size_t a = 0, b = 0;
  while (a < one.size() && b < other.size()) {
    const std::size_t end_a = std::min(one.find('\n', a), one.size()),
                      end_b = std::min(other.find('\n', b), other.size());
    const std::string line_a = one.substr(a, end_a - a), line_b = other.substr(b, end_b - b);
    if (line_a != line_b) return line_a + " and " + line_b;
    a = end_a + 1, b = end_b + 1;
  }
  return "one ends before the other";
}

std::string status_text(int32_t status) {
  static constexpr const char* names[] = {
      "RESHARD_OK",         "RESHARD_FAILED",      "RESHARD_BAD_OPTION",    "RESHARD_BAD_PROBLEM",
      "RESHARD_BAD_ANSWER", "RESHARD_HOST_FAILED", "RESHARD_OUT_OF_MEMORY", "RESHARD_INTERNAL"};
  if (status < 0 || status > RESHARD_INTERNAL) return fmt::format("the unknown status {}", status);
  return names[status];
}

bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const std::size_t size = byte < 0x80                   ? 1
                             : byte >= 0xC2 && byte < 0xE0 ? 2
                             : byte >= 0xE0 && byte < 0xF0 ? 3
                             : byte >= 0xF0 && byte < 0xF5 ? 4
                                                           : 0;
    if (size == 0 || i + size > text.size()) return false;
    for (std::size_t k = 1; k < size; ++k)
      if ((static_cast<unsigned char>(text[i + k]) & 0xC0) != 0x80) return false;
    i += size;
  }
  return true;
}

}  // namespace reshard::conformance
