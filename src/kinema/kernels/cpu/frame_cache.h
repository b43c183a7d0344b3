#pragma once

#include <cstdint>
#include <vector>

#include "kinema/kernels/cpu/convolution.h"

namespace kinema::kernels {

/// A ring of input frames, each converted once and read by several frames of the result. A slot is
/// reused once no later frame of the result reads its frame.
class FrameCache {
 public:
  explicit FrameCache(const ConvolutionPlan& plan)
      : p_(plan), has_(static_cast<size_t>(slots(plan)), -1) {}

  static int64_t slots(const ConvolutionPlan& p) { return (p.w[0] - 1) * p.dilation[0] + 1; }
  static int64_t slot(const ConvolutionPlan& p, int64_t frame) { return frame % slots(p); }
  /// The frame of x under kernel frame `tap` for one frame of the result; may be outside of x.
  static int64_t read(const ConvolutionPlan& p, int64_t frame, int64_t tap) {
    return frame * p.stride[0] - p.low[0] + tap * p.dilation[0];
  }
  static bool is_inside(const ConvolutionPlan& p, int64_t read) {
    return read >= 0 && read < p.x[0];
  }

  /// Calls `bring(read)` for each frame that `frame` reads and that is not held yet. Frames must be
  /// passed in order.
  template <typename Bring>
  void load_for(int64_t frame, const Bring& bring) {
    for (int64_t tap = 0; tap < p_.w[0]; ++tap) {
      const int64_t at = read(p_, frame, tap);
      if (is_inside(p_, at) && has_[static_cast<size_t>(slot(p_, at))] != at) {
        has_[static_cast<size_t>(slot(p_, at))] = at;
        bring(at);
      }
    }
  }

 private:
  const ConvolutionPlan& p_;
  std::vector<int64_t> has_;  // the frame in each slot
};

}  // namespace kinema::kernels
