#pragma once

#include <cstdint>
#include <vector>

#include "kinema/kernels/cpu/convolution.h"

namespace kinema::kernels {

/// Frames of x, brought once into the form that several frames of the result read them in. They lie
/// in slots, each of which is taken over when no later frame of the result reads what it has.
class HeldFrames {
 public:
  explicit HeldFrames(const ConvolutionPlan& plan)
      : p_(plan), has_(static_cast<size_t>(slots(plan)), -1) {}

  static int64_t slots(const ConvolutionPlan& p) { return (p.w[0] - 1) * p.dilation[0] + 1; }
  static int64_t slot(const ConvolutionPlan& p, int64_t frame) { return frame % slots(p); }
  /// The frame of x that frame `tap` of the kernel meets at one of the result; may lie outside.
  static int64_t read(const ConvolutionPlan& p, int64_t frame, int64_t tap) {
    return frame * p.stride[0] - p.low[0] + tap * p.dilation[0];
  }
  static bool is_inside(const ConvolutionPlan& p, int64_t read) {
    return read >= 0 && read < p.x[0];
  }

  /// Calls `bring(read)` for each frame that one of the result reads and that is not held yet.
  /// Frames of the result come in order.
  template <typename Bring>
  void hold_for(int64_t frame, const Bring& bring) {
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
  std::vector<int64_t> has_;  // the frame that each slot has
};

}  // namespace kinema::kernels
