// Any bytes as a zip archive: an Error, or files that lie inside the data.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "allocations.h"
#include "kinema/core/error.h"
#include "kinema/io/zip.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const AllocationLimit limit(size);
  try {
    const auto zip = kinema::io::ZipArchive::parse(std::as_bytes(std::span(data, size)), "input");
    for (const auto& [name, file] : zip.files()) {
      const auto* bytes = reinterpret_cast<const uint8_t*>(file.bytes.data());
      const bool is_inside =
          file.bytes.empty() || (bytes >= data && bytes + file.bytes.size() <= data + size);
      if (!is_inside || !zip.has(name)) {
        std::abort();
      }
    }
  } catch (const kinema::Error&) {
    return 0;
  }
  return 0;
}
