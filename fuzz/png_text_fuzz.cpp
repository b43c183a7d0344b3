// Any bytes as a picture that may hold texts: an Error, or no more text than there are bytes.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "allocations.h"
#include "kinema/core/error.h"
#include "kinema/media/png_text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kinema;
  const AllocationLimit limit(size);
  try {
    size_t found = 0;
    for (const media::PngText& each : media::read_image_texts(
             std::span(reinterpret_cast<const std::byte*>(data), size), "input")) {
      found += each.keyword.size() + each.text.size();
    }
    constexpr size_t kDeflate = 1032;  // bytes that one byte of deflate stands for, at most
    if (found > kDeflate * size) {     // Latin-1 takes two
      std::abort();
    }
  } catch (const Error&) {
    return 0;
  }
  return 0;
}
