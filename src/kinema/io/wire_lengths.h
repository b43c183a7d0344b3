#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kinema::io {

/// Which fields of a protobuf message are messages themselves.
struct WireMessage {
  struct Field {
    uint32_t number;
    const WireMessage* message;
  };
  std::span<const Field> messages;
};

/// True when every length in a serialized message ends within the message that it stands in; false
/// also for the old groups, which none of our formats has.
///
/// To be asked before protobuf parses bytes from outside: it makes room for a field as long as the
/// enclosing message says that it is, up to 50 MB, and only then finds that the bytes end.
bool lengths_fit(std::span<const std::byte> bytes, const WireMessage& message);

}  // namespace kinema::io
