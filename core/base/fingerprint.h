#pragma once

// FNV-1a, 64 bits: tells values apart that came about in different places, equal on every machine. Not for security.

#include <cstdint>
#include <string_view>

namespace reshard::base {

class Fingerprint {
 public:
  void add(uint32_t word) { hash_ = (hash_ ^ word) * kPrime; }
  void add(std::string_view text) {
    for (const char c : text) add(static_cast<uint32_t>(static_cast<unsigned char>(c)));
    add(0xFFU);  // ends the text: "ab","c" differs from "a","bc"
  }
  uint64_t value() const { return hash_; }

 private:
  static constexpr uint64_t kPrime = 0x100000001B3U;
  uint64_t hash_ = 0xCBF29CE484222325U;
};

}  // namespace reshard::base
