#include "kinema/model_files/stored.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

#include "kinema/core/error.h"
#include "kinema/core/f8.h"
#include "kinema/core/parallel.h"
#include "kinema/nn/quantized.h"

namespace kinema::model_files {
namespace {

constexpr int64_t kRowsAtOnce = 16;
// Number of values converted to F32 at a time: they stay in the L1 cache.
constexpr size_t kChunk = 4096;

/// Calls work(first value, values) for the values of one row as F32, piece by piece.
template <typename Work>
void for_each_piece(const FloatWeight& weight, size_t row, const Work& work) {
  const auto width = static_cast<size_t>(weight.shape.elements() / weight.shape.dims[0]);
  const auto bytes = static_cast<size_t>(byte_size(weight.shape.dtype));
  std::array<float, kChunk> values;  // NOLINT: convert fills what is read
  for (size_t i = 0; i < width; i += kChunk) {
    const std::span<float> piece(values.data(), std::min(kChunk, width - i));
    convert(weight.bytes.subspan((row * width + i) * bytes, piece.size() * bytes),
            weight.shape.dtype, std::as_writable_bytes(piece), DType::F32);
    work(i, piece);
  }
}

/// The bits of the largest absolute value; of NaN if there is one. Bits without the sign have the
/// same order as the values, with NaN last, and are not negative.
int32_t largest_of(std::span<const float> values, int32_t largest) {
  for (const float x : values) {
    largest = std::max(largest, std::bit_cast<int32_t>(x) & 0x7fffffff);
  }
  return largest;
}

/// Rounds to nearest even by an addition, which vectorises; |x| is below 2^22.
float rounded(float x) {
  constexpr float kOnes = 12582912.0F;  // 1.5 * 2^23: its last bit is 1
  return (x + kOnes) - kOnes;
}

void to_s8(std::span<const float> values, float scale, std::span<std::byte> out) {
  for (size_t i = 0; i < values.size(); ++i) {
    const float code = std::min(std::max(rounded(values[i] / scale), -128.0F), 127.0F);
    out[i] = static_cast<std::byte>(static_cast<int32_t>(code));
  }
}

void to_f8(std::span<const float> values, float scale, float most, std::span<std::byte> out) {
  for (size_t i = 0; i < values.size(); ++i) {
    const float code = std::min(std::max(values[i] / scale, -most), most);
    out[i] = static_cast<std::byte>(f32_to_f8e4m3fn(code));
  }
}

void check_kinds(const FloatWeight& weight, DType codes) {
  check(is_float(weight.shape.dtype) && weight.shape.rank() >= 2 &&
            (codes == DType::S8 || codes == DType::F8E4M3FN),
        "[weights] {} cannot be stored as {}", to_string(weight.shape), to_string(codes));
}

}  // namespace

StoredWeight store(const FloatWeight& weight, DType codes) {
  check_kinds(weight, codes);
  const int64_t rows = weight.shape.dims[0];
  StoredWeight out{HostArray(Shape{codes, weight.shape.dims}),
                   HostArray(Shape{DType::F32, {rows}})};
  const std::span<float> scales = out.scales.as<float>();
  const auto most = static_cast<float>(nn::code_bound(codes));
  for_ranges_in_parallel(rows, kRowsAtOnce, [&](int64_t first, int64_t last) {
    for (auto row = static_cast<size_t>(first); row < static_cast<size_t>(last); ++row) {
      int32_t largest = 0;
      for_each_piece(weight, row, [&](size_t, std::span<const float> values) {
        largest = largest_of(values, largest);
      });
      const float scale = std::bit_cast<float>(largest) / most;
      scales[row] = scale == 0.0F ? 1.0F : scale;
      if (!std::isfinite(scales[row])) {
        continue;  // reported below
      }
      const size_t begin = row * (out.codes.bytes.size() / static_cast<size_t>(rows));
      for_each_piece(weight, row, [&](size_t i, std::span<const float> values) {
        const auto to = std::span(out.codes.bytes).subspan(begin + i, values.size());
        codes == DType::S8 ? to_s8(values, scales[row], to) : to_f8(values, scales[row], most, to);
      });
    }
  });
  for (const float scale : scales) {
    check(std::isfinite(scale),
          "[weights] `{}` holds {}, expected finite numbers to store as {}\n  the file is "
          "corrupt: download it again",
          weight.name, std::isnan(scale) ? "NaN" : "infinity", to_string(codes));
  }
  return out;
}

void decode_stored(std::span<const std::byte> values, DType codes, std::span<const float> scales,
                   std::span<float> out) {
  check(values.size() == out.size() && !scales.empty() && out.size() % scales.size() == 0,
        "[weights] {} codes and {} scales are not {} values", values.size(), scales.size(),
        out.size());
  const size_t width = std::max<size_t>(1, out.size() / scales.size());
  for_ranges_in_parallel(
      static_cast<int64_t>(out.size()), 1 << 18, [&](int64_t first, int64_t last) {
        for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(last); ++i) {
          const auto code = static_cast<uint8_t>(values[i]);
          const float value = codes == DType::S8 ? static_cast<float>(static_cast<int8_t>(code))
                              : codes == DType::F8E4M3FN ? f8e4m3fn_to_f32(code)
                                                         : f8e5m2_to_f32(code);
          out[i] = value * scales[i / width];
        }
      });
}

}  // namespace kinema::model_files
