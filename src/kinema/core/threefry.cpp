#include "kinema/core/threefry.h"

#include <bit>
#include <cmath>
#include <numbers>

namespace kinema {

std::array<uint32_t, 2> threefry2x32(std::array<uint32_t, 2> key, std::array<uint32_t, 2> counter) {
  constexpr std::array<int, 8> kRotations{13, 15, 26, 6, 17, 29, 16, 24};
  const std::array<uint32_t, 3> ks{key[0], key[1], key[0] ^ key[1] ^ 0x1BD11BDAU};
  uint32_t x0 = counter[0] + ks[0];
  uint32_t x1 = counter[1] + ks[1];
  for (uint32_t round = 0; round < 20; ++round) {
    x0 += x1;
    x1 = std::rotl(x1, kRotations[round % 8]) ^ x0;
    if (round % 4 == 3) {
      const uint32_t j = round / 4 + 1;
      x0 += ks[j % 3];
      x1 += ks[(j + 1) % 3] + j;
    }
  }
  return {x0, x1};
}

std::array<uint32_t, 2> random_key(uint64_t seed, std::string_view purpose, uint64_t position) {
  uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a of the purpose
  for (const char c : purpose) {
    hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3U;
  }
  const auto split = [](uint64_t v) {
    return std::array<uint32_t, 2>{static_cast<uint32_t>(v), static_cast<uint32_t>(v >> 32)};
  };
  return threefry2x32(threefry2x32(split(seed), split(hash)), split(position));
}

uint32_t RandomStream::bits() {
  const uint64_t i = counter_++;
  if (i % 2 == 0) {
    const uint64_t block = i / 2;
    block_ = threefry2x32(key_, {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32)});
  }
  return block_[i % 2];
}

void RandomStream::seek(uint64_t position) {
  counter_ = position - position % 2;
  if (position % 2 == 1) {
    bits();  // of the block that the second word comes from
  }
}

float RandomStream::uniform() { return static_cast<float>(bits() >> 8) * 0x1p-24F; }

float RandomStream::normal() {
  const double u = (static_cast<double>(bits() >> 8) + 1.0) * 0x1p-24;  // (0, 1]: log stays finite
  const double v = static_cast<double>(bits() >> 8) * 0x1p-24;
  return static_cast<float>(std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v));
}

uint64_t RandomStream::below(uint64_t n) {
  const uint64_t limit = ~uint64_t{0} - (~uint64_t{0} % n + 1) % n;  // last accepted value
  uint64_t r = 0;
  do {
    const uint64_t high = bits();
    r = (high << 32) | bits();
  } while (r > limit);
  return r % n;
}

}  // namespace kinema
