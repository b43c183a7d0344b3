#include "kinema/records/wire_lengths.h"

#include <algorithm>
#include <optional>

namespace kinema::records {
namespace {

/// Removes a varint from the front.
std::optional<uint64_t> take_varint(std::span<const std::byte>& bytes) {
  uint64_t value = 0;
  constexpr size_t kLongest = 10;
  for (size_t i = 0; i < std::min(bytes.size(), kLongest); ++i) {
    const auto byte = static_cast<uint64_t>(bytes[i]);
    value |= (byte & 0x7f) << (7 * i);
    if (byte < 0x80) {
      bytes = bytes.subspan(i + 1);
      return value;
    }
  }
  return std::nullopt;
}

bool take(std::span<const std::byte>& bytes, uint64_t count) {
  if (count > bytes.size()) {
    return false;
  }
  bytes = bytes.subspan(count);
  return true;
}

bool take_message(std::span<const std::byte>& bytes, uint64_t number, const WireMessage& parent) {
  const std::optional<uint64_t> length = take_varint(bytes);
  if (!length || *length > bytes.size()) {
    return false;
  }
  const auto found = std::ranges::find(parent.messages, number, &WireMessage::Field::number);
  const auto inside = bytes.first(*length);
  bytes = bytes.subspan(*length);
  return found == parent.messages.end() || lengths_fit(inside, *found->message);
}

}  // namespace

bool lengths_fit(std::span<const std::byte> bytes, const WireMessage& message) {
  while (!bytes.empty()) {
    const std::optional<uint64_t> key = take_varint(bytes);
    if (!key) {
      return false;
    }
    bool fits = false;
    switch (*key & 7) {  // the wire type
      case 0:
        fits = take_varint(bytes).has_value();
        break;
      case 1:
        fits = take(bytes, 8);
        break;
      case 2:
        fits = take_message(bytes, *key >> 3, message);
        break;
      case 5:
        fits = take(bytes, 4);
        break;
      default:
        break;
    }
    if (!fits) {
      return false;
    }
  }
  return true;
}

}  // namespace kinema::records
