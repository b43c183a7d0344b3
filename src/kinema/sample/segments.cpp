#include "kinema/sample/segments.h"

#include <algorithm>

#include "kinema/core/error.h"
#include "kinema/sample/latents.h"

namespace kinema::sample {

Segments segments_of(const Animation& animation, int64_t temporal) {
  const int64_t length = animation.segment_frames;
  const int64_t shared = animation.shared_frames;
  check(
      length > 1 && length % temporal == 1,
      "[sample] segment_frame_length is {}, expected one more than a multiple of {}\n  77 is that "
      "of training",
      length, temporal);
  check(shared > 0 && shared < length && shared % temporal == 1,
        "[sample] prev_segment_conditioning_frames is {}, expected one more than a multiple of {}, "
        "below segment_frame_length={}\n  1 and 5 are usual",
        shared, temporal, length);
  const Shape& poses = animation.poses.shape;
  check(poses.dtype == DType::U8 && poses.rank() == 4 && poses.dims[3] == 3 && poses.dims[0] > 0,
        "[sample] the poses are {}, expected u8[f,h,w,3]", to_string(poses));
  Segments out{.length = length, .shared = shared, .frames = poses.dims[0]};
  const int64_t step = length - shared;
  out.count = std::max<int64_t>(1, (out.frames - shared + step - 1) / step);
  return out;
}

HostArray continued_frames(const HostArray& video, int64_t first, int64_t count) {
  const int64_t frames = video.shape.dims.at(0);
  const int64_t period = std::max<int64_t>(1, 2 * (frames - 1));
  std::vector<int64_t> rows;
  for (int64_t i = first; i < first + count; ++i) {
    const int64_t at = i % period;
    rows.push_back(at < frames ? at : period - at);
  }
  return take_rows(video, rows);
}

SegmentFrames::SegmentFrames(const Segments& segments, const VideoSizes& sizes)
    : segments_(segments),
      sizes_(sizes),
      last_(Shape{DType::F32, {3, segments.shared, sizes.height, sizes.width}}),
      frames_(Shape{DType::U8, {segments.frames, sizes.height, sizes.width, 3}}) {}

void SegmentFrames::add(const encoders::Autoencoder& autoencoder, const HostArray& latents) {
  const int64_t plane = sizes_.height * sizes_.width;
  const int64_t shared = segments_.shared;
  const int64_t start = segments_.first_frame(done_);
  int64_t at = 0;  // within the segment
  autoencoder.decode(latents, [&](const HostArray& pixels) {
    const Dims& d = pixels.shape.dims;
    check(d.size() == 4 && d[0] == 3 && d[2] == sizes_.height && d[3] == sizes_.width &&
              at + d[1] <= segments_.length,
          "[sample] the autoencoder {} made {} after {} frames of a segment, expected {} frames of "
          "f32[3,{},{}]",
          autoencoder.name(), to_string(pixels.shape), at, segments_.length, sizes_.height,
          sizes_.width);
    const HostArray bytes = encoders::to_frames(pixels);
    for (int64_t i = 0; i < d[1]; ++i, ++at) {
      // The first frames of a later segment are those that the one before ended with.
      const bool is_new = done_ == 0 || at >= shared;
      if (is_new && start + at < segments_.frames) {
        std::copy_n(bytes.bytes.begin() + i * plane * 3, plane * 3,
                    frames_.bytes.begin() + (start + at) * plane * 3);
      }
      const int64_t row = at - (segments_.length - shared);
      for (int64_t c = 0; c < 3 && row >= 0; ++c) {
        std::copy_n(pixels.as<float>().begin() + (c * d[1] + i) * plane, plane,
                    last_.as<float>().begin() + (c * shared + row) * plane);
      }
    }
  });
  check(at == segments_.length, "[sample] the autoencoder {} made {} frames of a segment of {}",
        autoencoder.name(), at, segments_.length);
  ++done_;
}

}  // namespace kinema::sample
