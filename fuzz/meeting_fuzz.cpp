// A line of a handshake, as any program may send it: rejected, or equal after writing and reading.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "allocations.h"
#include "kinema/world/handshake_messages.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const AllocationLimit limit(size);
  using namespace kinema::world;
  const std::string_view line(reinterpret_cast<const char*>(data), size);
  if (const std::optional<HandshakeRequest> request = parse_request(line)) {
    const std::string own = to_line(*request);
    const std::optional<HandshakeRequest> again = parse_request(own);
    // Written out it may be longer than what is read.
    if (own.size() <= HandshakeRequest::kMostBytes && (!again || to_line(*again) != own)) {
      std::abort();
    }
  }
  if (const std::optional<HandshakeReply> reply = parse_reply(line)) {
    const std::string own = to_line(*reply);
    const std::optional<HandshakeReply> again = parse_reply(own);
    if (own.size() <= HandshakeReply::kMostBytes && (!again || to_line(*again) != own)) {
      std::abort();
    }
  }
  return 0;
}
