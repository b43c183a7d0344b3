#pragma once

#include <cstdint>
#include <string_view>

namespace kinema {

/// 64-bit hash of a text (FNV-1a), to compare texts; not cryptographic.
constexpr uint64_t fingerprint(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char each : text) {
    hash = (hash ^ static_cast<unsigned char>(each)) * 0x100000001b3;
  }
  return hash;
}

}  // namespace kinema
