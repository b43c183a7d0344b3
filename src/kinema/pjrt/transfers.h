#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "kinema/core/shape.h"

/// Copies between host and device: counted, and optionally forbidden.
namespace kinema::pjrt {

enum class Direction : uint8_t { TO_DEVICE, TO_HOST };

/// Copies started by a thread.
struct TransferCounts {
  int64_t to_device = 0;
  int64_t to_device_bytes = 0;
  int64_t to_host = 0;
  int64_t to_host_bytes = 0;
};
/// The calling thread's copies so far.
TransferCounts transfers();

/// The copies that the calling thread may make until the scope ends; the innermost scope applies.
/// Without one everything is allowed. Scopes end in reverse order, on the same thread.
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

/// Turns every copy into an Error with the copied array and `where` ("the training steps").
class TransferGuard : public TransferScope {
 public:
  explicit TransferGuard(std::string where) : TransferScope(std::move(where), 0, 0) {}
};

/// Allows copies inside a guard: all, or one direction's up to a number of bytes.
class AllowTransfers : public TransferScope {
 public:
  static constexpr int64_t kAnyBytes = std::numeric_limits<int64_t>::max();

  AllowTransfers() : TransferScope("", kAnyBytes, kAnyBytes) {}
  AllowTransfers(Direction direction, std::string where, int64_t bytes = kAnyBytes)
      : TransferScope(std::move(where), direction == Direction::TO_DEVICE ? bytes : 0,
                      direction == Direction::TO_HOST ? bytes : 0) {}
};

/// Counts a copy of this array; throws an Error if a guard forbids it. Called by the functions that
/// copy.
void begin_transfer(Direction direction, const Shape& shape);

}  // namespace kinema::pjrt
