#include "plugin/sha256.h"

#include <openssl/evp.h>

#include <array>

#include <fmt/format.h>

#include "reshard/error.h"

namespace reshard::plugin {

std::string sha256(std::span<const char> bytes) {
  std::array<unsigned char, 32> digest{};
  unsigned int size = digest.size();
  if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha256(), nullptr) != 1)
    throw Error(ErrorCode::plugin, "libcrypto computes no SHA-256", {}, "see whether this machine's OpenSSL forbids it");
  std::string text;
  for (const unsigned char byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace reshard::plugin
