// What anybody may say to the port at which processes meet: nothing, or what reads back to itself.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "allocations.h"
#include "kinema/world/tcp_hello.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const AllocationLimit limit(size);
  using namespace kinema::world;
  const std::string_view line(reinterpret_cast<const char*>(data), size);
  if (const std::optional<Hello> hello = parse_hello(line)) {
    const std::string own = line_of(*hello);
    const std::optional<Hello> again = parse_hello(own);
    // Written out it may be longer than what is read.
    if (own.size() <= Hello::kMostBytes && (!again || line_of(*again) != own)) {
      std::abort();
    }
  }
  if (const std::optional<Answer> answer = parse_answer(line)) {
    const std::string own = line_of(*answer);
    const std::optional<Answer> again = parse_answer(own);
    if (own.size() <= Answer::kMostBytes && (!again || line_of(*again) != own)) {
      std::abort();
    }
  }
  return 0;
}
