#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "kinema/core/host_array.h"

namespace kinema::preparation {

/// A clip's pixels, or the reason why there are none.
struct DecodedClip {
  int64_t clip = 0;     // its number
  HostArray pixels;     // f32 [3, f, h, w] in [-1, 1]
  std::string problem;  // of a clip that cannot be used
};

/// Decodes clips ahead on other threads and returns them in order.
class DecodeAhead {
 public:
  struct Options {
    int64_t first = 0;  // number of the first clip
    int threads = 2;
    int64_t depth = 4;  // clips in memory, including those being decoded
  };

  /// `read` returns the pixels of a clip in [0, clips), or throws an Error with its problem; called
  /// from many threads.
  DecodeAhead(int64_t clips, std::function<HostArray(int64_t)> read, const Options& options);
  DecodeAhead(const DecodeAhead&) = delete;
  DecodeAhead& operator=(const DecodeAhead&) = delete;
  ~DecodeAhead();

  /// The next clip; waits for it. Nothing after the last one. Rethrows a thread's exceptions other
  /// than problems of the clip.
  std::optional<DecodedClip> next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kinema::preparation
