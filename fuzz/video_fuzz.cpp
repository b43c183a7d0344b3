// Any bytes as a video: an Error, or at most as many frames as were asked for.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "kinema/core/error.h"
#include "kinema/media/video.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kinema;
  try {
    const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
    // Half of the inputs at a rate of our own, by the times that they claim.
    const double fps = size % 2 == 0 ? 16 : 0;
    const media::Video video =
        media::read_video(bytes, "input", {.fps = fps, .max_frames = 5, .max_pixels = 512 * 512});
    const media::VideoProbe probe = media::probe_video(bytes, "input");
    if (probe.frames < 0 || !(probe.pixel_aspect >= 0.1 && probe.pixel_aspect <= 10)) {
      std::abort();
    }
    const Shape& shape = video.frames.shape;
    if (shape.rank() != 4 || shape.dims[0] > 5 || shape.dims[3] != 3 ||
        static_cast<int64_t>(video.frames.bytes.size()) != shape.bytes()) {
      std::abort();
    }
  } catch (const Error&) {
    return 0;
  }
  return 0;
}
