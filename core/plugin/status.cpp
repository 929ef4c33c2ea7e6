#include "plugin/status.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "plugin/log.h"

namespace reshard::plugin {

Failure::Failure() : raw_{} {
  raw_.struct_size = sizeof raw_;
}

std::string Failure::reason() const {
  const std::string text = printable({raw_.text, std::min<std::size_t>(raw_.text_size, sizeof raw_.text)});
  return text.empty() ? "it gave no reason" : text;
}

std::string Failure::key() const {
  return printable({raw_.key, std::min<std::size_t>(raw_.key_size, sizeof raw_.key)});
}

std::string Failure::text(std::string_view function, int32_t status) const {
  if (status >= RESHARD_OK && status <= RESHARD_INTERNAL) return fmt::format("{} failed: {}", function, reason());
  return fmt::format("{} returned the unknown status {}: {}", function, status, reason());
}

int32_t fail(reshard_error* error, int32_t status, std::string_view text) noexcept {
  if (error == nullptr || !RESHARD_HAS(reshard_error, error, text)) return status;
  std::size_t size = std::min(text.size(), sizeof error->text);
  while (size > 0 && size < text.size() && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) --size;
  if (size > 0) std::memcpy(error->text, text.data(), size);
  error->code = status;
  error->text_size = static_cast<uint32_t>(size);
  error->key_size = 0;
  return status;
}

}  // namespace reshard::plugin
