#pragma once

// What a plugin says when a call fails. Threads: values only.

#include <reshard/plugin.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace reshard::plugin {

// The caller-owned buffer of one call.
class Failure {
 public:
  Failure();
  reshard_error* raw() { return &raw_; }

  std::string reason() const;  // what the plugin wrote, or "it gave no reason"
  std::string key() const;     // the option it blames, or empty

  // "decide failed: REASON", or "decide returned the unknown status 77: REASON".
  std::string text(std::string_view function, int32_t status) const;

 private:
  reshard_error raw_;
};

// The host's side: fills a plugin's buffer and returns `status`.
int32_t fail(reshard_error* error, int32_t status, std::string_view text) noexcept;

}  // namespace reshard::plugin
