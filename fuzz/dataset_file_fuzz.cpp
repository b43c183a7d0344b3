// Any text as a TOML file of data sets: an Error, or parts that name clips.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "allocations.h"
#include "input_file.h"
#include "kinema/core/error.h"
#include "kinema/data/dataset_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::filesystem::path path = input_file("sets.toml", data, size);
  try {
    const AllocationLimit limit(size);
    for (const auto& part : kinema::data::read_dataset_file(path).parts) {
      if (part.repeats < 1 || (part.folder.empty() && part.list.empty())) {
        std::abort();
      }
    }
  } catch (const kinema::Error&) {
  }
  std::filesystem::remove(path);
  return 0;
}
