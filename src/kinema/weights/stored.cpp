#include "kinema/weights/stored.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "kinema/core/error.h"
#include "kinema/core/f8.h"
#include "kinema/nn/quantized.h"
#include "kinema/weights/parallel.h"

namespace kinema::weights {
namespace {

constexpr int64_t kRowsAtOnce = 16;

/// The largest absolute value; NaN where one of them is. Bits without the sign are in the order of
/// the values, with NaN last.
float largest_of(std::span<const float> row) {
  uint32_t largest = 0;
  for (const float x : row) {
    largest = std::max(largest, std::bit_cast<uint32_t>(x) & 0x7fffffffU);
  }
  return std::bit_cast<float>(largest);
}

}  // namespace

StoredCodes stored_codes(const HostArray& weight, DType codes, std::string_view name) {
  check(weight.shape.dtype == DType::F32 && weight.shape.rank() >= 2 &&
            (codes == DType::S8 || codes == DType::F8E4M3FN),
        "[weights] {} cannot be stored as {}", to_string(weight.shape), to_string(codes));
  const int64_t rows = weight.shape.dims[0];
  StoredCodes out{HostArray(Shape{codes, weight.shape.dims}), HostArray(Shape{DType::F32, {rows}})};
  if (rows == 0) {
    return out;
  }
  const auto most = static_cast<float>(nn::code_bound(codes));
  const auto width = static_cast<size_t>(weight.shape.elements() / rows);
  const std::span<const float> values = weight.as<float>();
  const std::span<float> scales = out.scale.as<float>();
  in_parallel(rows, kRowsAtOnce, [&](int64_t first, int64_t last) {
    for (auto row = static_cast<size_t>(first); row < static_cast<size_t>(last); ++row) {
      const auto from = values.subspan(row * width, width);
      const float scale = largest_of(from) / most;
      scales[row] = scale == 0.0F ? 1.0F : scale;
      if (!std::isfinite(scale)) {
        continue;  // refused below: nothing is thrown in threads
      }
      std::byte* to = out.values.bytes.data() + row * width;
      for (size_t i = 0; i < width; ++i) {
        const float q = from[i] / scales[row];
        to[i] = codes == DType::S8
                    ? static_cast<std::byte>(
                          static_cast<int8_t>(std::clamp(std::nearbyint(q), -128.0F, 127.0F)))
                    : static_cast<std::byte>(f32_to_f8e4m3fn(std::clamp(q, -most, most)));
      }
    }
  });
  for (const float scale : scales) {
    check(std::isfinite(scale),
          "[weights] `{}` holds {}, expected finite numbers, which alone are stored as {}\n"
          "  the file is damaged: fetch it anew",
          name, std::isnan(scale) ? "NaN" : "infinity", to_string(codes));
  }
  return out;
}

void decode_stored(std::span<const std::byte> values, DType codes, std::span<const float> scales,
                   std::span<float> out) {
  check(values.size() == out.size() && !scales.empty() && out.size() % scales.size() == 0,
        "[weights] {} codes and {} scales are not {} values", values.size(), scales.size(),
        out.size());
  const size_t width = std::max<size_t>(1, out.size() / scales.size());
  in_parallel(static_cast<int64_t>(out.size()), 1 << 18, [&](int64_t first, int64_t last) {
    for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(last); ++i) {
      const auto code = static_cast<uint8_t>(values[i]);
      const float value = codes == DType::S8         ? static_cast<float>(static_cast<int8_t>(code))
                          : codes == DType::F8E4M3FN ? f8e4m3fn_to_f32(code)
                                                     : f8e5m2_to_f32(code);
      out[i] = value * scales[i / width];
    }
  });
}

}  // namespace kinema::weights
