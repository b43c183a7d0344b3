#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "kinema/core/shape.h"

/// Copies between host and device, counted and, on request, refused where they begin.
namespace kinema::pjrt {

enum class Direction : uint8_t { TO_DEVICE, TO_HOST };

/// Copies that a thread has begun.
struct TransferCounts {
  int64_t to_device = 0;
  int64_t to_device_bytes = 0;
  int64_t to_host = 0;
  int64_t to_host_bytes = 0;
};
/// Those of the calling thread so far.
TransferCounts transfers();

/// What the calling thread may copy, until the scope ends; the innermost scope counts. Without one
/// everything is allowed. Scopes end in the reverse order of their beginnings, on their thread.
class TransferScope {
 public:
  TransferScope(const TransferScope&) = delete;
  TransferScope& operator=(const TransferScope&) = delete;
  ~TransferScope();

 protected:
  TransferScope(std::string where, int64_t to_device_bytes, int64_t to_host_bytes);

 private:
  friend void begin_transfer(Direction direction, const Shape& shape);

  std::string where_;
  int64_t to_device_bytes_;
  int64_t to_host_bytes_;
  TransferScope* outer_;
};

/// Makes every copy an Error that says what was copied in `where` ("the training steps").
class TransferGuard : public TransferScope {
 public:
  explicit TransferGuard(std::string where) : TransferScope(std::move(where), 0, 0) {}
};

/// Lets copies through a guard around it: all of them, or one direction's up to so many bytes.
class AllowTransfers : public TransferScope {
 public:
  static constexpr int64_t kAnyBytes = std::numeric_limits<int64_t>::max();

  AllowTransfers() : TransferScope("", kAnyBytes, kAnyBytes) {}
  AllowTransfers(Direction direction, std::string where, int64_t bytes = kAnyBytes)
      : TransferScope(std::move(where), direction == Direction::TO_DEVICE ? bytes : 0,
                      direction == Direction::TO_HOST ? bytes : 0) {}
};

/// Counts a copy of this array; throws an Error where a guard refuses it. For those who copy.
void begin_transfer(Direction direction, const Shape& shape);

}  // namespace kinema::pjrt
