#include "plugin/log.h"

#include <fmt/format.h>

namespace reshard::plugin {

std::string printable(std::string_view text, std::size_t limit) {
  if (text.size() > limit) {
    std::size_t size = limit;
    while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) --size;
    text = text.substr(0, size);
  }
  std::string line;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n')
      line += "\\n";
    else if (c == '\t')
      line += "\\t";
    else if (byte < 0x20 || byte == 0x7f)
      line += fmt::format("\\x{:02x}", byte);
    else
      line += c;
  }
  return line;
}

}  // namespace reshard::plugin
