#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/core/host_array.h"

namespace kinema::text {

/// A text encoder without weights: each lower-cased word becomes a fixed random vector.
struct HashedEncoder {
  int64_t max_sequence_length = 16;
  int64_t text_dim = 64;
  int64_t pooled_dim = 0;

  /// f32 [max_sequence_length, text_dim]: a unit-normal vector from the word's hash plus a sinusoid
  /// of its position; zeros after the last word. Further words are dropped.
  HostArray encode(std::string_view caption) const;
  /// f32 [pooled_dim]: the sum of its words' unit-normal vectors of that width, divided by the
  /// square root of their number; zeros without words.
  HostArray pooled(std::string_view caption) const;
};

/// Lower-cased runs of letters and digits.
std::vector<std::string> words(std::string_view caption);

}  // namespace kinema::text
