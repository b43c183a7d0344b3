// Any bytes as a video: an Error, or at most as many frames as were asked for.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "core/error.h"
#include "io/video.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kinema;
  try {
    const io::Video video =
        io::read_video(std::span(reinterpret_cast<const std::byte*>(data), size), "input",
                       {.max_frames = 5, .max_pixels = 512 * 512});
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
