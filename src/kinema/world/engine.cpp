#include "kinema/world/engine.h"

#include <cstring>

namespace kinema::world {

Message Message::copy_of(std::span<const std::byte> bytes) {
  if (bytes.empty()) {
    return {};
  }
  const std::shared_ptr<std::byte[]> copy(new std::byte[bytes.size()]);  // uninitialised
  std::memcpy(copy.get(), bytes.data(), bytes.size());
  return {copy, {copy.get(), bytes.size()}};
}

}  // namespace kinema::world
