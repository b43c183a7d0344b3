#pragma once

#include <string_view>

#include "kinema/core/host_array.h"

/// Weights as codes with one scale per output, for nn::ModelOptions::weights_storage.
namespace kinema::model_files {

/// A weight [out, in...] of any float dtype, as a view, and its name in messages.
struct FloatWeight {
  const Shape& shape;
  std::span<const std::byte> bytes;
  std::string_view name = "a weight";
};

struct StoredWeight {
  HostArray codes;   // [out, in...]
  HostArray scales;  // [out], F32
};

/// A weight's codes and scales, as by nn::quantize with one scale per output:
///
///   scale = max |w| / B, 1 for a row of zeros;  B = 127.5 (S8), 448 (F8E4M3FN)
///   code  = w / scale, rounded to nearest even, within the codes' range
///
/// Throws an Error with the weight's name if a value is not finite.
StoredWeight store(const FloatWeight& weight, DType codes);

/// Writes codes times scales: one scale, or one for each row of [out, in...]. Codes are S8 or f8.
void decode_stored(std::span<const std::byte> values, DType codes, std::span<const float> scales,
                   std::span<float> out);

}  // namespace kinema::model_files
