// Any bytes: an Error, or tensors that lie inside the data and fill their shapes.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "allocations.h"
#include "kinema/core/error.h"
#include "kinema/io/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const AllocationLimit limit(size);
  try {
    const auto file =
        kinema::io::SafetensorsFile::parse(std::as_bytes(std::span(data, size)), "input");
    size_t bytes = 0;
    for (const auto& tensor : file.tensors()) {
      bytes += tensor.bytes.size();
      if (static_cast<int64_t>(tensor.bytes.size()) != tensor.shape.bytes() ||
          &file.at(tensor.name) != &tensor || tensor.copy().bytes.size() != tensor.bytes.size()) {
        std::abort();
      }
    }
    if (bytes + 8 > size) {
      std::abort();
    }
  } catch (const kinema::Error&) {
    return 0;
  }
  return 0;
}
