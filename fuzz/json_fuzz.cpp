// Any text: an Error, or a value whose own text reads back to itself.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "allocations.h"
#include "kinema/core/error.h"
#include "kinema/io/json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const AllocationLimit limit(size);
  using kinema::io::Json;
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const std::string once = Json::parse(text, "input").dump();
    std::string twice;
    try {
      twice = Json::parse(once, "own text").dump();
    } catch (const kinema::Error&) {
      std::abort();
    }
    if (once != twice) {
      std::abort();
    }
  } catch (const kinema::Error&) {
    return 0;
  }
  return 0;
}
