#pragma once

// SHA-256 of bytes, by OpenSSL's libcrypto. Threads: any.

#include <span>
#include <string>

namespace reshard::plugin {

// 64 hexadecimal digits in lower case, as sha256sum prints them.
std::string sha256(std::span<const char> bytes);

}  // namespace reshard::plugin
