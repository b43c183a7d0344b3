// Any text as a preprocessor_config.json: an Error, or what makes finite pixels of a picture.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "allocations.h"
#include "input_file.h"
#include "kinema/core/error.h"
#include "kinema/encoders/image_processor.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kinema;
  const auto path = input_file("preprocessor_config.json", data, size);
  const AllocationLimit limit(size);
  try {
    const encoders::ImageProcessor made = encoders::read_image_processor(path.parent_path());
    // Others are right too, and take longer than an input should.
    constexpr int64_t kSide = 96;
    if (std::max({made.shortest_edge, made.height, made.width, made.crop_height, made.crop_width}) >
        kSide) {
      return 0;
    }
    HostArray picture(Shape{DType::U8, {5, 7, 3}});
    for (size_t i = 0; i < picture.bytes.size(); ++i) {
      picture.bytes[i] = static_cast<std::byte>(5 * i);
    }
    const HostArray pixels = made(picture);
    if (!std::ranges::all_of(pixels.as<float>(), [](float x) { return std::isfinite(x); })) {
      std::abort();
    }
  } catch (const Error&) {
  }
  return 0;
}
