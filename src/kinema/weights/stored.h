#pragma once

#include <string_view>

#include "kinema/core/host_array.h"

/// Weights as codes with a scale an output, for nn::ModelOptions::weights_storage.
namespace kinema::weights {

struct StoredCodes {
  HostArray values;  // [out, in] of the codes' dtype
  HostArray scale;   // [out], F32
};

/// The codes of a weight [out, in...], F32, as nn::quantize finds them with one scale an output:
///
///   scale = max |w| / B, 1 for a row of zeros;  B = 127.5 (S8), 448 (F8E4M3FN)
///   values = w / scale, rounded to nearest even, within the codes' range
///
/// Throws an Error with the weight's `name` where a value is not finite.
StoredCodes stored_codes(const HostArray& weight, DType codes, std::string_view name = "a weight");

/// Writes codes times scales, of which there is one, or one for each row of [out, in...]. Codes are
/// S8 or f8.
void decode_stored(std::span<const std::byte> values, DType codes, std::span<const float> scales,
                   std::span<float> out);

}  // namespace kinema::weights
