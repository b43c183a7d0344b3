// Any bytes: an Error, or tensors that lie inside the data and decode to their shapes.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "allocations.h"
#include "kinema/core/error.h"
#include "kinema/io/gguf.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const AllocationLimit limit(size);
  try {
    const auto file = kinema::io::GgufFile::parse(std::as_bytes(std::span(data, size)), "input");
    for (const auto& tensor : file.tensors()) {
      const auto* bytes = reinterpret_cast<const uint8_t*>(tensor.bytes.data());
      const bool is_inside =
          tensor.bytes.empty() || (bytes >= data && bytes + tensor.bytes.size() <= data + size);
      if (!is_inside ||
          (!tensor.decode && static_cast<int64_t>(tensor.bytes.size()) != tensor.shape.bytes())) {
        std::abort();
      }
      // Values of four bits are eight times as large, which the limit is not meant for.
      if (tensor.shape.bytes() <= static_cast<int64_t>(2 * size)) {
        tensor.copy();
      }
    }
  } catch (const kinema::Error&) {
    return 0;
  }
  return 0;
}
