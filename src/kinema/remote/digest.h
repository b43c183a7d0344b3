#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace kinema::remote {

/// SHA-256 or SHA-1 of bytes passed in pieces.
class Digest {
 public:
  enum class Kind { SHA256, SHA1 };
  explicit Digest(Kind kind);
  ~Digest();

  void update(std::span<const std::byte> bytes);
  void update(std::string_view text) { update(std::as_bytes(std::span(text))); }
  /// Hexadecimal digits for all bytes; call it once.
  std::string hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kinema::remote
