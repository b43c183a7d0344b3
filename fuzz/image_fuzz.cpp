// Any bytes as a picture: an Error, or pixels of the stated size.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "kinema/core/error.h"
#include "kinema/media/image.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kinema;
  try {
    const HostArray image =
        media::read_image(std::span(reinterpret_cast<const std::byte*>(data), size), "input");
    if (image.shape.rank() != 3 || image.shape.dims[2] != 3 ||
        static_cast<int64_t>(image.bytes.size()) != image.shape.bytes()) {
      std::abort();
    }
  } catch (const Error&) {
    return 0;
  }
  return 0;
}
