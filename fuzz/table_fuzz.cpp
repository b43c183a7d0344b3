// Any bytes as a Parquet or Arrow file of a Hugging Face data set.
//
// libarrow, which reads them, tells the fuzzer nothing of its branches. So inputs are mostly the
// seeds with some bytes changed in place: behind a length or an offset that no longer fits, nothing
// would be reached.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <random>

#include "allocations.h"
#include "input_file.h"
#include "kinema/core/error.h"
#include "kinema/data/hf_table.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  // Memory from malloc, which the sanitizer guards.
  return setenv("ARROW_DEFAULT_MEMORY_POOL", "system", 1);
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  std::minstd_rand random(seed);
  const auto below = [&](size_t end) { return random() % end; };
  if (size == 0 || below(8) == 0) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  constexpr uint8_t kTelling[] = {0x00, 0x01, 0x7f, 0x80, 0xff, 0xfe};
  for (size_t changes = 1 + below(4); changes > 0; --changes) {
    // Lengths, types and counts stand at the end of the one format and at the beginning of the
    // other, and a little of each everywhere.
    const size_t near = std::min<size_t>(size, 600);
    const size_t places[] = {below(size), below(near), size - 1 - below(near)};
    uint8_t& byte = data[places[below(3)]];
    switch (below(4)) {
      case 0:
        byte = static_cast<uint8_t>(random());
        break;
      case 1:
        byte = kTelling[below(std::size(kTelling))];
        break;
      case 2:
        byte = static_cast<uint8_t>(byte ^ (1U << below(8)));
        break;
      default:
        byte = static_cast<uint8_t>(byte + (below(2) == 0 ? 1 : 255));
    }
  }
  return size;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kinema;
  const std::filesystem::path path = input_file("table", data, size);
  const AllocationLimit limit(size);
  constexpr int64_t kSpare = 1 << 20;
  try {
    const data::HfTable table(path, "image", "text", kSpare);
    if (table.rows() > static_cast<int64_t>(size)) {
      std::abort();
    }
    for (int64_t row = 0; row < std::min<int64_t>(table.rows(), 16); ++row) {
      try {
        table.caption(row);
      } catch (const Error&) {
      }
      try {
        const data::MediaCell cell = table.media(row);
        if (cell.bytes.empty() && cell.path.empty()) {
          std::abort();
        }
        // Bytes that are not there would be found here.
        for (const std::byte each : cell.bytes) {
          volatile std::byte read = each;
          static_cast<void>(read);
        }
      } catch (const Error&) {
      }
    }
  } catch (const Error&) {
  }
  return 0;
}
