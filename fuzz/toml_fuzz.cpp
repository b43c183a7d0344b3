// Any text as a TOML document: an Error, or a JSON object of bounded depth.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "allocations.h"
#include "kinema/core/error.h"
#include "kinema/io/toml.h"

namespace {

void check_depth(const kinema::io::Json& value, int depth) {
  if (depth > 256) {
    std::abort();
  }
  if (value.is_object()) {
    for (const auto& [key, each] : value.members()) {
      check_depth(each, depth + 1);
    }
  } else if (value.is_array()) {
    for (const auto& each : value.items()) {
      check_depth(each, depth + 1);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const AllocationLimit limit(size);
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const kinema::io::Json value = kinema::io::parse_toml(text, "input");
    if (!value.is_object()) {
      std::abort();
    }
    check_depth(value, 0);
  } catch (const kinema::Error&) {
    return 0;
  }
  return 0;
}
