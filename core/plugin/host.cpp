#include "plugin/host.h"

#include <algorithm>
#include <utility>

namespace reshard::plugin {

Host::Host(std::string strategy, LogFunction log) : strategy_(std::move(strategy)), log_(std::move(log)), table_{} {
  table_.struct_size = sizeof table_;
  table_.abi_major = RESHARD_ABI_MAJOR;
  table_.abi_minor = RESHARD_ABI_MINOR;
  table_.name = text("reshard");
  table_.version = text(RESHARD_VERSION);
  table_.context = this;
  table_.log_enabled = &Host::log_enabled;
  table_.log = &Host::log;
  table_.get_extension = &Host::get_extension;
}

int32_t Host::log_enabled(void* context, uint32_t) {
  return static_cast<Host*>(context)->log_ ? 1 : 0;
}

// Nothing may be thrown into the plugin: a line that cannot be delivered is lost.
void Host::log(void* context, uint32_t level, reshard_text line) {
  const auto* host = static_cast<Host*>(context);
  if (!host->log_) return;
  try {
    host->log_(static_cast<LogLevel>(std::min<uint32_t>(level, RESHARD_LOG_ERROR)), host->strategy_,
               printable(view(line)));
  } catch (...) {
  }
}

// ABI 1.0 defines no extension.
const void* Host::get_extension(void*, reshard_text) {
  return nullptr;
}

std::string_view view(reshard_text text) {
  return text.data == nullptr ? std::string_view() : std::string_view(text.data, text.size);
}

reshard_text text(std::string_view view) {
  return {view.data(), view.size()};
}

}  // namespace reshard::plugin
