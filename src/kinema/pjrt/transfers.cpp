#include "kinema/pjrt/transfers.h"

#include <utility>

#include "kinema/core/error.h"

namespace kinema::pjrt {
namespace {

thread_local TransferCounts counts;
thread_local TransferScope* innermost = nullptr;

}  // namespace

TransferCounts transfers() { return counts; }

TransferScope::TransferScope(std::string where, int64_t to_device_bytes, int64_t to_host_bytes)
    : where_(std::move(where)),
      to_device_bytes_(to_device_bytes),
      to_host_bytes_(to_host_bytes),
      outer_(std::exchange(innermost, this)) {}

TransferScope::~TransferScope() { innermost = outer_; }

void begin_transfer(Direction direction, const Shape& shape) {
  const bool in = direction == Direction::TO_DEVICE;
  const int64_t bytes = shape.bytes();
  if (innermost != nullptr) {
    int64_t& left = in ? innermost->to_device_bytes_ : innermost->to_host_bytes_;
    check(bytes <= left,
          "[transfer_guard] {} ({} bytes) is copied to the {} in {}, where {}\n"
          "  transfer_guard=false allows it",
          to_string(shape), bytes, in ? "device" : "host", innermost->where_,
          left == 0 ? std::string("nothing is") : fmt::format("{} bytes more are allowed", left));
    if (left != AllowTransfers::kAnyBytes) {
      left -= bytes;
    }
  }
  (in ? counts.to_device : counts.to_host) += 1;
  (in ? counts.to_device_bytes : counts.to_host_bytes) += bytes;
}

}  // namespace kinema::pjrt
