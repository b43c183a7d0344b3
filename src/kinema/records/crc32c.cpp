#include "kinema/records/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace kinema::records {
namespace {

// The polynomial of RFC 3720, bit-reversed.
constexpr uint32_t kPolynomial = 0x82f63b78U;

constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1U) != 0 ? kPolynomial : 0U);
    }
    table[i] = crc;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kTable = make_table();

uint32_t by_table(uint32_t crc, std::span<const std::byte> bytes) {
  for (const std::byte b : bytes) {
    crc = kTable[(crc ^ static_cast<uint32_t>(b)) & 0xffU] ^ (crc >> 8);
  }
  return crc;
}

#if defined(__x86_64__)
// SSE 4.2 has an instruction for this polynomial: about 20 times the speed of the table.
__attribute__((target("sse4.2"))) uint32_t by_instruction(uint32_t crc,
                                                          std::span<const std::byte> bytes) {
  uint64_t wide = crc;
  const std::byte* p = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; left -= 8, p += 8) {
    uint64_t word = 0;
    std::memcpy(&word, p, 8);
    wide = _mm_crc32_u64(wide, word);
  }
  auto narrow = static_cast<uint32_t>(wide);
  for (; left > 0; --left, ++p) {
    narrow = _mm_crc32_u8(narrow, static_cast<uint8_t>(*p));
  }
  return narrow;
}
#endif

}  // namespace

uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) {
    return ~by_instruction(~before, bytes);
  }
#endif
  return ~by_table(~before, bytes);
}

uint32_t masked_crc32c(std::span<const std::byte> bytes) {
  const uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

}  // namespace kinema::records
