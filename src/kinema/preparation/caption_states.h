#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "kinema/encoders/text_encoder.h"

namespace kinema::preparation {

/// Captions that one call of an encoder takes: it may read its parameters once for all of them.
inline constexpr int64_t kCaptionsAtOnce = 16;

/// The text states of captions asked for in the order of their places, encoded kCaptionsAtOnce
/// places at a time. A caption's states do not depend on which others are encoded with it.
class CaptionStates {
 public:
  /// `caption(place)` may throw an Error: that place has none.
  CaptionStates(const encoders::TextEncoder& encoder,
                std::function<std::string(int64_t place)> caption)
      : encoder_(encoder), caption_(std::move(caption)) {}

  /// Encodes the places from `first` on, before `end`, ahead of their being asked for. Throws an
  /// Error for what fails with any caption; one that fails alone is left for `at` to tell.
  void begin(int64_t first, int64_t end);
  /// Those of the caption at a place, states f32 [t, d], until the next call; places from `end` on
  /// will not be asked for. Throws an Error for a caption that cannot be encoded.
  const encoders::TextStates& at(int64_t place, int64_t end);

 private:
  void encode_ahead(int64_t place, int64_t end);

  const encoders::TextEncoder& encoder_;
  std::function<std::string(int64_t)> caption_;
  std::map<std::string, encoders::TextStates> states_;
};

}  // namespace kinema::preparation
