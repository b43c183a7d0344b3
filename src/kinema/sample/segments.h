#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "kinema/core/host_array.h"
#include "kinema/encoders/autoencoder.h"
#include "kinema/sample/given_files.h"
#include "kinema/sample/sizes.h"

/// Long videos of Wan-Animate, which are made in segments: each begins with the last frames of the
/// one before.
namespace kinema::sample {

struct Segments {
  int64_t count = 1;
  int64_t length = 0;  // frames of each
  int64_t shared = 0;  // frames with which each but the first begins
  int64_t frames = 0;  // of the whole video; the last segment may have more

  int64_t first_frame(int64_t segment) const { return segment * (length - shared); }
};

/// The segments of a video with as many frames as the poses. Throws an Error if the poses or the
/// lengths cannot be those of a request: segments have one frame more than a multiple of
/// `temporal`, and so have the frames that they share.
Segments segments_of(const Animation& animation, int64_t temporal);

/// Frames `first` to `first + count` of a video u8 [f, ...] that is continued backwards and
/// forwards after its end: 1 2 3 2 1 2 ....
HostArray continued_frames(const HostArray& video, int64_t first, int64_t count);

/// A segment of a request, with the frames that its videos begin with.
struct SegmentPart {
  int64_t index = 0;
  int64_t first_frame = 0;
  std::vector<HostArray> before = {};  // f32 [3, k, H, W] of each video; none of the first segment
};

/// The frames of a video whose segments are decoded one after another.
class SegmentFrames {
 public:
  SegmentFrames(const Segments& segments, const VideoSizes& sizes);

  /// Decodes latents [c, f, h, w] of the next segment. Throws an Error if the autoencoder returns
  /// other sizes.
  void add(const encoders::Autoencoder& autoencoder, const HostArray& latents);
  /// The last frames of the last segment, f32 [3, shared, H, W].
  const HostArray& last() const { return last_; }
  /// All frames so far, u8 [f, H, W, 3].
  HostArray take() { return std::move(frames_); }

 private:
  Segments segments_;
  VideoSizes sizes_;
  int64_t done_ = 0;  // segments
  HostArray last_;
  HostArray frames_;
};

}  // namespace kinema::sample
