#pragma once

#include <cstdint>
#include <span>

namespace kinema::media {

enum class Filter : uint8_t { Bilinear, Bicubic, Lanczos };

/// Scales [height, width, channels] to [to_height, to_width, channels], as PIL's resize: the filter
/// widens with the reduction (antialiasing), pixel centres at half-integers, bicubic with a = -0.5,
/// Lanczos with three lobes.
void resample(std::span<const float> in, int64_t height, int64_t width, int64_t channels,
              std::span<float> out, int64_t to_height, int64_t to_width, Filter filter);

/// The same for bytes, with PIL's rounding, so that every byte is equal to PIL's: weights with 22
/// binary places, and intermediate results rounded to bytes. A side that keeps its size is not
/// filtered.
void resample(std::span<const uint8_t> in, int64_t height, int64_t width, int64_t channels,
              std::span<uint8_t> out, int64_t to_height, int64_t to_width, Filter filter);

}  // namespace kinema::media
