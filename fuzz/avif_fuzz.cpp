// Any bytes as an AVIF picture: an Error, or pixels of the size that its boxes state.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "kinema/core/error.h"
#include "kinema/media/avif.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kinema;
  constexpr int64_t kMaxPixels = 512 * 512;
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  try {
    const media::ImageSize stated = media::avif_size(bytes, kMaxPixels);
    const HostArray image = media::decode_avif(bytes, kMaxPixels, {});
    if (image.shape.dims != Dims{1, stated.height, stated.width, 3} ||
        stated.height * stated.width > kMaxPixels) {
      std::abort();
    }
  } catch (const Error&) {
    return 0;
  }
  return 0;
}
