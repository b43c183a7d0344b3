#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "core/host_array.h"
#include "data/video_source.h"

namespace kinema::prepare {

/// A clip's pixels, or why there are none.
struct DecodedClip {
  int64_t clip = 0;     // index into the list
  HostArray pixels;     // f32 [3, f, h, w] in [-1, 1]
  std::string problem;  // of a clip that cannot be used
};

/// Clips of a list, decoded ahead on other threads and handed out in order.
class DecodeAhead {
 public:
  struct Options {
    int64_t first = 0;  // clip to begin with
    int threads = 2;
    int64_t depth = 4;  // clips decoded and not taken yet, those being decoded included
  };

  /// The clips must outlive it.
  DecodeAhead(std::span<const data::CaptionedClip> clips, const data::ClipFormat& format,
              const Options& options);
  DecodeAhead(const DecodeAhead&) = delete;
  DecodeAhead& operator=(const DecodeAhead&) = delete;
  ~DecodeAhead();

  /// The next clip; waits for it. Nothing after the last one. Throws what a thread met that is not
  /// the clip's own fault.
  std::optional<DecodedClip> next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kinema::prepare
