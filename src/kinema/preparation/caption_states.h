#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "kinema/encoders/text_encoder.h"

namespace kinema::preparation {

/// Captions per call of an encoder: it may read its parameters once for all of them.
inline constexpr int64_t kCaptionsAtOnce = 16;

/// The text states of captions requested in the order of their places, encoded kCaptionsAtOnce
/// places at a time. A caption's states do not depend on the other captions of a call.
class CaptionStates {
 public:
  /// `caption(place)` may throw an Error: that place has no states.
  CaptionStates(const encoders::TextEncoder& encoder,
                std::function<std::string(int64_t place)> caption)
      : encoder_(encoder), caption_(std::move(caption)) {}

  /// Encodes the first places from `first`, before `end`. Throws an Error that would occur for any
  /// caption; a single caption's error is thrown by `at`.
  void begin(int64_t first, int64_t end);
  /// The states, f32 [t, d], of the caption at a place, valid until the next call; places from
  /// `end` on will not be requested. Throws an Error for a caption that cannot be encoded.
  const encoders::TextStates& at(int64_t place, int64_t end);

 private:
  void encode_ahead(int64_t place, int64_t end);

  const encoders::TextEncoder& encoder_;
  std::function<std::string(int64_t)> caption_;
  std::map<std::string, encoders::TextStates> states_;
};

}  // namespace kinema::preparation
