#include "kinema/core/finite.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace kinema {
namespace {

/// Whether every element has an exponent below all ones, which mean infinite or NaN.
template <typename Word>
bool all_below(std::span<const std::byte> bytes, Word exponent) {
  // Branch-free sums, which the compiler vectorises.
  constexpr size_t kWords = 4096;
  const size_t words = bytes.size() / sizeof(Word);
  for (size_t first = 0; first < words; first += kWords) {
    Word found = 0;
    for (size_t i = first; i < std::min(words, first + kWords); ++i) {
      Word word;
      std::memcpy(&word, bytes.data() + i * sizeof(Word), sizeof(Word));
      found |= static_cast<Word>((word & exponent) == exponent);
    }
    if (found != 0) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool all_finite(std::span<const std::byte> bytes, DType dtype) {
  switch (dtype) {
    case DType::F32:
      return all_below<uint32_t>(bytes, 0x7f800000U);
    case DType::BF16:
      return all_below<uint16_t>(bytes, 0x7f80U);
    case DType::F16:
      return all_below<uint16_t>(bytes, 0x7c00U);
    case DType::F8E5M2:
      return all_below<uint8_t>(bytes, 0x7cU);
    case DType::F8E4M3FN:  // no infinity: only NaN, all bits but the sign's
      return all_below<uint8_t>(bytes, 0x7fU);
    case DType::F64:
      return all_below<uint64_t>(bytes, 0x7ff0000000000000ULL);
    default:
      return true;
  }
}

}  // namespace kinema
