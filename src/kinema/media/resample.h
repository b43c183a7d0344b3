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

/// Whose bytes are computed.
enum class Rounding : uint8_t {
  PIL,    // weights with 22 binary places
  TORCH,  // weights in 16 bits, of torchvision's resize with antialiasing (torch 2.1 and later)
};

/// The same for bytes, every one of which is equal to that of the library: in fixed point, and with
/// intermediate results rounded to bytes. A side that keeps its size is not filtered.
void resample(std::span<const uint8_t> in, int64_t height, int64_t width, int64_t channels,
              std::span<uint8_t> out, int64_t to_height, int64_t to_width, Filter filter,
              Rounding rounding = Rounding::PIL);

}  // namespace kinema::media
