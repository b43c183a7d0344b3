#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kinema::records {

/// The fields of a protobuf message that are messages.
struct WireMessage {
  struct Field {
    uint32_t number;
    const WireMessage* message;
  };
  std::span<const Field> messages;
};

/// True if every length in a serialized message ends within its enclosing message; false also for
/// the deprecated groups, which none of the formats has.
///
/// Call it before protobuf parses untrusted bytes: it allocates a field with the stated length, up
/// to 50 MB, before it finds that the bytes end.
bool lengths_fit(std::span<const std::byte> bytes, const WireMessage& message);

}  // namespace kinema::records
