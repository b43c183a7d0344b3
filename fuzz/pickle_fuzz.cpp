// Any bytes as a pickle or a file of torch.save: an Error, or tensors of the size that their shapes
// say.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "allocations.h"
#include "kinema/core/error.h"
#include "kinema/io/pickle_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const AllocationLimit limit(size);
  try {
    const auto file = kinema::io::PickleFile::parse(std::as_bytes(std::span(data, size)), "input");
    for (const auto& tensor : file.tensors()) {
      if (tensor.decode || static_cast<int64_t>(tensor.bytes.size()) != tensor.shape.bytes() ||
          file.find(tensor.name) != &tensor) {
        std::abort();
      }
      tensor.copy();
    }
  } catch (const kinema::Error&) {
    return 0;
  }
  return 0;
}
