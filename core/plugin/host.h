#pragma once

// The host's side of the C table: what a plugin may call at any time. Threads: any.

#include <reshard/plugin.h>

#include <string>

#include "plugin/log.h"

namespace reshard::plugin {

// One listener's table. It must outlive whatever was handed table().
class Host {
 public:
  Host(std::string strategy, LogFunction log);
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  const reshard_host* table() const { return &table_; }

 private:
  static int32_t log_enabled(void* context, uint32_t level);
  static void log(void* context, uint32_t level, reshard_text line);
  static const void* get_extension(void* context, reshard_text id);

  std::string strategy_;
  LogFunction log_;
  reshard_host table_;
};

// A view of a plugin's text; empty when the plugin gave none.
std::string_view view(reshard_text text);
reshard_text text(std::string_view view);

}  // namespace reshard::plugin
