#include "kinema/io/ggml_blocks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "kinema/core/bf16.h"
#include "kinema/core/error.h"

namespace kinema::io {
namespace {

constexpr int64_t kBlock = 32;
constexpr int64_t kSuperBlock = 256;

int byte_at(const std::byte* p, int64_t i) { return std::to_integer<int>(p[i]); }

int signed_at(const std::byte* p, int64_t i) { return static_cast<int8_t>(byte_at(p, i)); }

float half_at(const std::byte* p) {
  return f16_to_f32(static_cast<uint16_t>(byte_at(p, 0) | byte_at(p, 1) << 8));
}

// d, 16 bytes: value j in the low, j + 16 in the high four bits. Q5: four bytes of fifth bits
// before these. The zero of Q4_0 and Q5_0 is in the middle; that of Q4_1 and Q5_1 is `least`, which
// follows d.
void decode_q4_or_q5(const std::byte* block, bool fifth, bool has_least, float* y) {
  const float d = half_at(block);
  const float least = has_least ? half_at(block + 2) : 0.0F;
  const int middle = has_least ? 0 : fifth ? 16 : 8;
  const std::byte* fifths = block + (has_least ? 4 : 2);
  const std::byte* q = fifths + (fifth ? 4 : 0);
  for (int64_t j = 0; j < kBlock; ++j) {
    const int four = byte_at(q, j % 16) >> (j / 16 * 4) & 0xf;
    const int high = fifth ? (byte_at(fifths, j / 8) >> (j % 8) & 1) << 4 : 0;
    const float value = static_cast<float>((four | high) - middle) * d;
    y[j] = has_least ? value + least : value;
  }
}

// d, 32 signed bytes.
void decode_q8_0(const std::byte* block, float* y) {
  const float d = half_at(block);
  for (int64_t j = 0; j < kBlock; ++j) {
    y[j] = static_cast<float>(signed_at(block + 2, j)) * d;
  }
}

// Q2_K: 16 bytes of four bits each for scale and least, 64 of values, d, d_least. For each half of
// 128 values, 32 bytes have two bits each of four rows; groups of 16.
void decode_q2_k(const std::byte* block, float* y) {
  const float d = half_at(block + 80);
  const float d_least = half_at(block + 82);
  for (int64_t i = 0; i < kSuperBlock; ++i) {
    const int both = byte_at(block, i / 16);
    const int q = byte_at(block + 16, i / 128 * 32 + i % 32) >> (i % 128 / 32 * 2) & 3;
    const float scale = d * static_cast<float>(both & 0xf);
    const float least = d_least * static_cast<float>(both >> 4);
    y[i] = scale * static_cast<float>(q) - least;
  }
}

// Q3_K: 32 bytes of third bits, 64 of the other two as in Q2_K, 12 of scales, d. A scale has six
// bits, minus 32: four in the first eight bytes and two in the last four. A third bit of 0
// subtracts 4.
void decode_q3_k(const std::byte* block, float* y) {
  const std::byte* scales = block + 96;
  const float d = half_at(block + 108);
  for (int64_t i = 0; i < kSuperBlock; ++i) {
    const int64_t group = i / 16;
    const int four = byte_at(scales, group % 8) >> (group / 8 * 4) & 0xf;
    const int two = byte_at(scales, 8 + group % 4) >> (group / 4 * 2) & 3;
    const int q = byte_at(block + 32, i / 128 * 32 + i % 32) >> (i % 128 / 32 * 2) & 3;
    const int third = byte_at(block, i % 32) >> (i / 32) & 1;
    y[i] = d * static_cast<float>((four | two << 4) - 32) * static_cast<float>(q - 4 * (1 - third));
  }
}

struct Group {
  float scale, least;
};

// 12 bytes hold eight pairs of six bits. The first four pairs are in the low six bits of bytes 0 to
// 3 and 4 to 7, whose upper two bits are the upper ones of the last four pairs.
Group group(const std::byte* scales, int64_t j, float d, float d_least) {
  int scale = 0;
  int least = 0;
  if (j < 4) {
    scale = byte_at(scales, j) & 63;
    least = byte_at(scales, j + 4) & 63;
  } else {
    scale = (byte_at(scales, j + 4) & 0xf) | byte_at(scales, j - 4) >> 6 << 4;
    least = byte_at(scales, j + 4) >> 4 | byte_at(scales, j) >> 6 << 4;
  }
  return {d * static_cast<float>(scale), d_least * static_cast<float>(least)};
}

// Q4_K: d, d_least, 12 bytes of scales, 128 bytes of low and high four bits. Q5_K: 32 bytes of
// fifth bits before these. value = scale q - least, in eight groups of 32.
void decode_q4_or_q5_k(const std::byte* block, bool fifth, float* y) {
  const float d = half_at(block);
  const float d_least = half_at(block + 2);
  const std::byte* scales = block + 4;
  const std::byte* fifths = block + 16;
  const std::byte* q = block + 16 + (fifth ? 32 : 0);
  for (int64_t j = 0; j < 8; ++j) {
    const Group g = group(scales, j, d, d_least);
    for (int64_t i = 0; i < 32; ++i) {
      const int low = byte_at(q, j / 2 * 32 + i) >> (j % 2 * 4) & 0xf;
      const int high = fifth ? (byte_at(fifths, i) >> j & 1) << 4 : 0;
      y[j * 32 + i] = g.scale * static_cast<float>(low | high) - g.least;
    }
  }
}

// 128 bytes of low four bits, 64 of the upper two, 16 signed scales, d. Halves of 128 values; value
// = d scale (q - 32), in groups of 16.
void decode_q6_k(const std::byte* block, float* y) {
  const float d = half_at(block + 208);
  for (int64_t half = 0; half < 2; ++half) {
    const std::byte* low = block + 64 * half;
    const std::byte* high = block + 128 + 32 * half;
    const std::byte* scales = block + 192 + 8 * half;
    for (int64_t row = 0; row < 4; ++row) {
      for (int64_t i = 0; i < 32; ++i) {
        const int four = byte_at(low, row % 2 * 32 + i) >> (row / 2 * 4) & 0xf;
        const int two = byte_at(high, i) >> (2 * row) & 3;
        const int scale = signed_at(scales, 2 * row + i / 16);
        y[128 * half + 32 * row + i] =
            d * static_cast<float>(scale) * static_cast<float>((four | two << 4) - 32);
      }
    }
  }
}

// The values of four bits in IQ4.
constexpr std::array<int, 16> kIq4{-127, -104, -83, -65, -49, -35, -22, -10,
                                   1,    13,   25,  38,  53,  69,  89,  113};

// 16 bytes: value j in the low, j + 16 in the high four bits.
void decode_iq4(const std::byte* q, float scale, float* y) {
  for (int64_t j = 0; j < kBlock; ++j) {
    const int four = byte_at(q, j % 16) >> (j / 16 * 4) & 0xf;
    y[j] = scale * static_cast<float>(kIq4[static_cast<size_t>(four)]);
  }
}

// IQ4_XS: d, the upper two bits of eight scales in two bytes, their lower four bits in four bytes,
// 128 bytes of values. value = d (scale - 32) kIq4[q], in groups of 32.
void decode_iq4_xs(const std::byte* block, float* y) {
  const float d = half_at(block);
  const int high = byte_at(block, 2) | byte_at(block, 3) << 8;
  for (int64_t i = 0; i < kSuperBlock / kBlock; ++i) {
    const int low = byte_at(block + 4, i / 2) >> (i % 2 * 4) & 0xf;
    const int scale = (low | (high >> (2 * i) & 3) << 4) - 32;
    decode_iq4(block + 8 + 16 * i, d * static_cast<float>(scale), y + kBlock * i);
  }
}

void decode_block(GgmlType type, const std::byte* block, float* y) {
  switch (type) {
    case GgmlType::F32:
      std::memcpy(y, block, sizeof(float));
      return;
    case GgmlType::F16:
      *y = half_at(block);
      return;
    case GgmlType::BF16:
      *y = bf16_to_f32(static_cast<uint16_t>(byte_at(block, 0) | byte_at(block, 1) << 8));
      return;
    case GgmlType::Q4_0:
      decode_q4_or_q5(block, false, false, y);
      return;
    case GgmlType::Q4_1:
      decode_q4_or_q5(block, false, true, y);
      return;
    case GgmlType::Q5_0:
      decode_q4_or_q5(block, true, false, y);
      return;
    case GgmlType::Q5_1:
      decode_q4_or_q5(block, true, true, y);
      return;
    case GgmlType::Q2_K:
      decode_q2_k(block, y);
      return;
    case GgmlType::Q3_K:
      decode_q3_k(block, y);
      return;
    case GgmlType::Q8_0:
      decode_q8_0(block, y);
      return;
    case GgmlType::Q4_K:
      decode_q4_or_q5_k(block, false, y);
      return;
    case GgmlType::Q5_K:
      decode_q4_or_q5_k(block, true, y);
      return;
    case GgmlType::Q6_K:
      decode_q6_k(block, y);
      return;
    case GgmlType::IQ4_NL:
      decode_iq4(block + 2, half_at(block), y);
      return;
    case GgmlType::IQ4_XS:
      decode_iq4_xs(block, y);
      return;
  }
}

/// Offsets of a block's scales, which are f16; empty for plain floats.
std::span<const int64_t> scale_places(GgmlType type) {
  static constexpr std::array<int64_t, 2> kFirst{0, 2};
  static constexpr std::array<int64_t, 2> kLastOfQ2{80, 82};
  static constexpr std::array<int64_t, 1> kLastOfQ3{108};
  static constexpr std::array<int64_t, 1> kLastOfQ6{208};
  switch (type) {
    case GgmlType::F32:
    case GgmlType::F16:
    case GgmlType::BF16:
      return {};
    case GgmlType::Q4_0:
    case GgmlType::Q5_0:
    case GgmlType::Q8_0:
    case GgmlType::IQ4_NL:
    case GgmlType::IQ4_XS:
      return std::span(kFirst).first(1);
    case GgmlType::Q4_1:
    case GgmlType::Q5_1:
    case GgmlType::Q4_K:
    case GgmlType::Q5_K:
      return kFirst;
    case GgmlType::Q2_K:
      return kLastOfQ2;
    case GgmlType::Q3_K:
      return kLastOfQ3;
    case GgmlType::Q6_K:
      return kLastOfQ6;
  }
  return {};
}

void check_scale(float value, int64_t block, int64_t blocks, std::string_view what) {
  check(std::isfinite(value),
        "[gguf] {}: a scale of block {} of {} is not finite, expected a number\n  the file is "
        "corrupt: download it again",
        what, block, blocks);
}

}  // namespace

const GgmlLayout* ggml_layout(uint32_t type) {
  static constexpr std::array<std::pair<GgmlType, GgmlLayout>, 15> kLayouts{{
      {GgmlType::F32, {"F32", 1, 4}},
      {GgmlType::F16, {"F16", 1, 2}},
      {GgmlType::Q4_0, {"Q4_0", kBlock, 18}},
      {GgmlType::Q4_1, {"Q4_1", kBlock, 20}},
      {GgmlType::Q5_0, {"Q5_0", kBlock, 22}},
      {GgmlType::Q5_1, {"Q5_1", kBlock, 24}},
      {GgmlType::Q8_0, {"Q8_0", kBlock, 34}},
      {GgmlType::Q2_K, {"Q2_K", kSuperBlock, 84}},
      {GgmlType::Q3_K, {"Q3_K", kSuperBlock, 110}},
      {GgmlType::Q4_K, {"Q4_K", kSuperBlock, 144}},
      {GgmlType::Q5_K, {"Q5_K", kSuperBlock, 176}},
      {GgmlType::Q6_K, {"Q6_K", kSuperBlock, 210}},
      {GgmlType::IQ4_NL, {"IQ4_NL", kBlock, 18}},
      {GgmlType::IQ4_XS, {"IQ4_XS", kSuperBlock, 136}},
      {GgmlType::BF16, {"BF16", 1, 2}},
  }};
  const auto* const found = std::ranges::find(kLayouts, static_cast<GgmlType>(type),
                                              [](const auto& each) { return each.first; });
  return found == kLayouts.end() ? nullptr : &found->second;
}

void ggml_decode(GgmlType type, std::span<const std::byte> bytes, std::span<float> values,
                 std::string_view what) {
  const GgmlLayout* layout = ggml_layout(static_cast<uint32_t>(type));
  check(layout != nullptr, "[gguf] values of type {} are not read", static_cast<uint32_t>(type));
  const auto blocks = static_cast<int64_t>(bytes.size()) / layout->bytes;
  check(blocks * layout->bytes == static_cast<int64_t>(bytes.size()) &&
            blocks * layout->values == static_cast<int64_t>(values.size()),
        "[gguf] {} bytes of {} are not {} values", bytes.size(), layout->name, values.size());
  for (int64_t i = 0; i < blocks; ++i) {
    float* y = values.data() + i * layout->values;
    decode_block(type, bytes.data() + i * layout->bytes, y);
    if (layout->values >
        1) {  // one value is enough: a non-finite scale makes all values non-finite
      check_scale(*y, i, blocks, what);
    }
  }
}

void ggml_check_scales(GgmlType type, std::span<const std::byte> bytes, std::string_view what) {
  const GgmlLayout* layout = ggml_layout(static_cast<uint32_t>(type));
  check(layout != nullptr, "[gguf] values of type {} are not read", static_cast<uint32_t>(type));
  const std::span<const int64_t> places = scale_places(type);
  const auto blocks = static_cast<int64_t>(bytes.size()) / layout->bytes;
  for (int64_t i = 0; !places.empty() && i < blocks; ++i) {
    for (const int64_t place : places) {
      check_scale(half_at(bytes.data() + i * layout->bytes + place), i, blocks, what);
    }
  }
}

void ggml_encode_q8_0(std::span<const float> values, std::span<std::byte> bytes,
                      std::string_view what) {
  const auto blocks = static_cast<int64_t>(values.size()) / kBlock;
  check(blocks * kBlock == static_cast<int64_t>(values.size()) &&
            blocks * 34 == static_cast<int64_t>(bytes.size()),
        "[gguf] {} values do not fill {} bytes of Q8_0", values.size(), bytes.size());
  for (int64_t block = 0; block < blocks; ++block) {
    const float* x = values.data() + block * kBlock;
    std::byte* out = bytes.data() + block * 34;
    float largest = 0.0F;
    bool is_finite = true;
    for (int64_t i = 0; i < kBlock; ++i) {
      largest = std::max(largest, std::abs(x[i]));
      is_finite = is_finite && std::isfinite(x[i]);
    }
    const float d = largest / 127.0F;
    // Smaller scales are 0 in f16 and have no inverse.
    const float inverse = d >= std::numeric_limits<float>::min() ? 1.0F / d : 0.0F;
    const uint16_t half = f32_to_f16(d);
    check(is_finite && std::isfinite(f16_to_f32(half)),
          "[gguf] {}: {} of block {} cannot be stored as Q8_0, expected numbers up to 8.3e6", what,
          is_finite ? "values" : "values that are not finite", block);
    out[0] = static_cast<std::byte>(half & 0xff);
    out[1] = static_cast<std::byte>(half >> 8);
    for (int64_t i = 0; i < kBlock; ++i) {
      out[2 + i] = static_cast<std::byte>(static_cast<int8_t>(std::round(x[i] * inverse)));
    }
  }
}

}  // namespace kinema::io
