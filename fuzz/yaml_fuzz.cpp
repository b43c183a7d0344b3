// Any text as a YAML document: an Error, or a value of bounded size.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "allocations.h"
#include "kinema/core/error.h"
#include "kinema/io/yaml.h"

namespace {

size_t count(const kinema::io::Yaml& value, int depth) {
  if (depth > 64) {
    std::abort();
  }
  size_t sum = 1;
  for (const auto& item : value.items()) {
    sum += count(item, depth + 1);
  }
  for (const auto& member : value.members()) {
    sum += count(member.value, depth + 1);
  }
  return sum;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const AllocationLimit limit(size);
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    if (count(kinema::io::Yaml::parse(text, "input"), 0) > 100'001) {
      std::abort();
    }
  } catch (const kinema::Error&) {
    return 0;
  }
  return 0;
}
